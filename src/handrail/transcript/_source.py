"""Values that are made when somebody reads them, from what successive values share.

A transcript is published after every event, so making one must not cost what it holds. What is dear (the text of a
part, the parts of a message, the messages, JSON) is therefore kept as a source of it, of which the next one is cheap
to make; reading makes the value, once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

__all__ = ["Source"]


class Source:
    """What a field of a frozen value may hold in place of what it is read as."""

    __slots__ = ()

    @abstractmethod
    def read(self) -> Any:
        """The value; the same at every reading, whatever came of the source since."""
