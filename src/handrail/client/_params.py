"""What one run is asked with beside the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import Context, Tool

__all__ = ["RunParams"]


@dataclass(frozen=True, slots=True)
class RunParams:
    """Parameters of one `send`, `run` or `resume`.

    `run_id` defaults to a fresh uuid4. `tools` are AG-UI declarations, as against the session's own tools: calls to
    them are surfaced and not executed, unless the session has a tool of that name. `tools`, `context` and
    `forwarded_props` go unchanged into the request and its follow-ups.
    """

    run_id: str | None = None
    tools: Sequence[Tool] = ()
    context: Sequence[Context] = ()
    forwarded_props: Any = None
