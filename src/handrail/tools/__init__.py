"""What a tool is: its declaration from a signature, the check of its arguments, and its value as a tool message.

A tool meets two languages. Outside it everything is JSON: the schema a model reads, the argument text it writes, the
object that is approved, edited and shown. Inside it everything is Python: `Tool.call` turns the checked object into
the types of the signature at the last moment, and `as_content` turns the value back into text. Nothing here starts a
task or a thread or looks at a clock; the loop and the session do that, and share these rules.
"""

from __future__ import annotations

from handrail.events import LogLevel
from handrail.tools._context import ToolContext
from handrail.tools._results import InThread, awaited, completed, dropped, taken
from handrail.tools._tool import ArgumentsError, Tool, catalogue, groups, tool
from handrail.tools._values import as_content, error_message, error_text

__all__ = [
    "ArgumentsError",
    "InThread",
    "LogLevel",
    "Tool",
    "ToolContext",
    "as_content",
    "awaited",
    "catalogue",
    "completed",
    "dropped",
    "error_message",
    "error_text",
    "groups",
    "taken",
    "tool",
]
