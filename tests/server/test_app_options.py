"""Options of the app: what cannot work is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.loops import endless

from handrail import Loop
from handrail.server import agui_app


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on_disconnect": "stop"}, ValueError),
        ({"busy": "wait"}, ValueError),
        ({"stream": "dead"}, ValueError),
        ({"keepalive": 0}, ValueError),
        ({"keepalive": "15"}, TypeError),
        ({"max_body_bytes": 0}, ValueError),
        ({"replay_window": -1}, ValueError),
        ({"max_held_runs": -1}, ValueError),
        ({"replay_window": float("nan")}, ValueError),
        ({"keepalive": float("nan")}, ValueError),
        ({"keepalive": True}, TypeError),
        ({"max_body_bytes": 1.5}, TypeError),
        ({"max_held_runs": "many"}, TypeError),
        ({"max_held_runs": None}, TypeError),
        ({"busy": []}, ValueError),
        ({"on_disconnect": None}, ValueError),
        ({"allow_origins": 5}, TypeError),
        ({"allow_origins": None}, TypeError),
        ({"allow_origins": [5]}, TypeError),
        ({"allow_origins": b"*"}, TypeError),
        ({"allow_origins": "app.example"}, ValueError),
        ({"allow_origins": ["https://app.example/"]}, ValueError),
        ({"allow_origins": ["*", ""]}, ValueError),
        ({"authorize": "admin"}, TypeError),
        ({"on_finish": 5}, TypeError),
        ({"error_text": "It failed."}, TypeError),
        ({"on_warning": True}, TypeError),
        ({"authorize": lambda: "ada"}, TypeError),
        ({"on_finish": lambda outcome: None}, TypeError),
        ({"error_text": lambda given, outcome: ""}, TypeError),
        ({"on_warning": lambda: None}, TypeError),
    ],
)
def test_options_that_cannot_work_are_refused(options: Any, error: type[Exception]) -> None:
    """P-76: when the app is made."""
    with pytest.raises(error, match=next(iter(options))):
        agui_app(Loop([endless()]), **options)


def test_what_is_no_loop_is_refused() -> None:
    """P-76."""
    with pytest.raises(TypeError, match="Loop"):
        agui_app("loop")  # type: ignore[arg-type]


def test_a_function_that_cannot_make_a_loop_is_refused_at_once() -> None:
    """P-76: not at the first request."""
    loop = Loop([endless()])
    misfits: list[Any] = [lambda: loop, lambda given: loop, lambda given, principal, more: loop]
    for misfit in misfits:
        with pytest.raises(TypeError, match="a function of an input and a principal"):
            agui_app(misfit)
    fits: list[Any] = [lambda given, principal: loop, lambda *given: loop, lambda given, principal, more=1: loop]
    for fit in fits:
        agui_app(fit)
