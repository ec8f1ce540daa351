"""The serving end: an AG-UI endpoint over a loop, as an ASGI app on Starlette.

`agui_app(loop)` makes the app. `Refuse` is what its `authorize` and `loop` functions raise to answer with a status
instead of a stream; `ServerRequest` is what `authorize` is asked about.
"""

from __future__ import annotations

from handrail.errors import Refuse

try:
    from handrail.server._asgi import ServerRequest
    from handrail.server._endpoint import AguiApp, agui_app
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("starlette"):
        raise
    raise ImportError("handrail.server stands on Starlette: pip install 'handrail[server]'") from missing

__all__ = ["AguiApp", "Refuse", "ServerRequest", "agui_app"]
