"""The protocol, both directions: rules only, with no I/O, no clock and no id of its own making.

    in     bytes > frames > JSON > what older peers send > shapes > chunks > order > messages and state   `_inbound`
    out    run events > AG-UI events > order > bytes                                                      `_outbound`
    input  what an agent is asked with: sent, and read                                                    `_input`

One set of tables serves both ends, so that client and server cannot drift into two dialects. Public is what an
application says about a question that an agent asked, and the record of what was tolerated on the wire.
"""

from __future__ import annotations

from handrail.agui._interrupts import abandon, answer, approve, deny, edit
from handrail.agui._warnings import WarningRecord

__all__ = ["WarningRecord", "abandon", "answer", "approve", "deny", "edit"]
