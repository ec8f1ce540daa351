"""Names of authors, which chat completions take in one shape only and AG-UI in any."""

from __future__ import annotations

import pytest

from handrail import user
from handrail.backends._openai_messages import messages_out


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("ann", "ann"),
        ("Jörg Müller", "Jörg_Müller"),
        ("a  b\t<c>|d\\e/f", "a_b_c_d_e_f"),
        (" ", "_"),
        ("x" * 70, "x" * 64),
        ("", None),
    ],
)
def test_a_name_is_sent_as_far_as_it_is_taken(name: str, sent: str | None) -> None:
    """L-152: one name with a space in it must not have every request of its thread refused."""
    [message] = messages_out([user("Hi", name=name)])
    assert message.get("name") == sent
