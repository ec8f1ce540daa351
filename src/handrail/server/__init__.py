"""The serving end: an AG-UI endpoint over a loop, as a plain ASGI app.

`agui_app(loop)` makes the app. `Refuse` is what its `authorize` and `loop` functions raise to answer with a status
instead of a stream; `ServerRequest` is what `authorize` is asked about.
"""

from __future__ import annotations

from handrail.errors import Refuse
from handrail.server._asgi import ServerRequest
from handrail.server._endpoint import AguiApp, agui_app

__all__ = ["AguiApp", "Refuse", "ServerRequest", "agui_app"]
