"""An agent behind an HTTP endpoint.

One POST, and what it answers with, read to its end. Each run has a task of its own that sends, reads and closes; it is
cancelled where it waits when the run is, or when the grace after a terminal event is over. The response is closed on
every way out, in the task that opened it, and only then does the run end.
"""

from __future__ import annotations

import contextlib
import html
import inspect
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import httpx
from ag_ui.core import RunAgentInput

from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES
from handrail.agui._json import parse_json
from handrail.agui._warnings import WarningRecord
from handrail.client._agent_run import AgentDriver, AgentRun, LateRunError, check_late_run_error
from handrail.client._body import RequestBody, read_body, readable_encodings, transport_error
from handrail.errors import HttpError, TransportError, WireError
from handrail.run import Ended, Settled, start_thread
from handrail.run._outcome import error_line

__all__ = ["HttpAgent"]

Headers: TypeAlias = Mapping[str, str]
HeaderMaker: TypeAlias = Callable[[], Headers | Awaitable[Headers]]

EVENT_STREAM = "text/event-stream"
WRITE_TIMEOUT = 30.0
POOL_TIMEOUT = 10.0
CLOSE_TIMEOUT = 5.0
ERROR_BODY_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT = 10.0
ERROR_TEXT = 500
"""Characters of an error body that go into the text of the error."""
LAST_PORT = 65_535

_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)


class HttpAgent:
    """An agent that speaks AG-UI over HTTP: `agent.start(input)` is one POST, and a run of what it answers.

        async with HttpAgent("https://example.com/agui", headers={"Authorization": "Bearer ..."}) as agent:
            run = agent.start(RunAgentInput(...))
            async for event in run.events: ...
            outcome = await run.result

    `headers` is a mapping, or a function, sync or async, that gives one for each request. `client` is used and never
    closed; without one, a client is made for each event loop, which `aclose` or leaving `async with` closes.
    `close_grace` is how long to read on behind a terminal event, for a late error or a further run;
    `connect_timeout` how long connecting may take, `idle_timeout` the longest silence between two bytes, comments
    included (seconds; None is no limit). An event has at most `max_event_bytes`. `lenient` is for servers older than
    AG-UI 1.0. With `late_run_error="fail"` a RUN_ERROR after RUN_FINISHED fails the run; by default the verdict stands.

    The agent keeps nothing between runs, and any number go on at once, from any thread and event loop. A request is
    never repeated, a redirect never followed. Every failure is in the run's result and report. Raises `TypeError` or
    `ValueError` for what cannot work.
    """

    def __init__(
        self,
        url: str | httpx.URL,
        *,
        headers: Headers | HeaderMaker | None = None,
        client: httpx.AsyncClient | None = None,
        close_grace: float = 2.0,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        lenient: bool = False,
        connect_timeout: float | None = 10.0,
        idle_timeout: float | None = 600.0,
        late_run_error: LateRunError = "stand",
    ) -> None:
        self._url = httpx.URL(url)
        if client is None:  # one that was given may know the rest of it
            _check_address(self._url)
        if not close_grace >= 0:
            raise ValueError(f"close_grace is {close_grace}: it is a number of seconds, 0 or more")
        if max_event_bytes < 1:
            raise ValueError(f"max_event_bytes is {max_event_bytes}: it is a number of bytes above 0")
        for name, seconds in (("connect_timeout", connect_timeout), ("idle_timeout", idle_timeout)):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is {seconds}: it is a number of seconds above 0, or None for no limit")
        self._headers = headers if callable(headers) else httpx.Headers(cast("Any", headers))
        self._client = client
        self._clients: WeakKeyDictionary[object, httpx.AsyncClient] = WeakKeyDictionary()
        self.close_grace = close_grace
        self._max_event_bytes = max_event_bytes
        self._lenient = lenient
        self._timeout = httpx.Timeout(
            connect=connect_timeout, read=idle_timeout, write=WRITE_TIMEOUT, pool=POOL_TIMEOUT
        )
        self._late_run_error: LateRunError = check_late_run_error(late_run_error)

    def start(self, input: RunAgentInput | Mapping[str, Any]) -> AgentRun:
        """Send the input, and return the run of the answer at once; the input may also be a dict of the wire's shape.

        Raises `LocalProtocolError` for an input that breaks the protocol, and `UsageError` under trio without a
        `RunScope`; nothing has been sent then. Everything later is in the result and the report.
        """
        driver = AgentDriver(
            input,
            close_grace=self.close_grace,
            lenient=self._lenient,
            late_run_error=self._late_run_error,
            max_event_bytes=self._max_event_bytes,
        )
        return driver.start(lambda: self._exchange(driver))

    async def aclose(self) -> None:
        """Close the client that was made on this event loop, if any; a client that was given stays open.

        Runs that still go on here lose their connection. The agent can be used again.
        """
        client = self._clients.pop(_this_loop(), None)
        if client is not None:
            await client.aclose()

    async def __aenter__(self) -> HttpAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await self.aclose()

    # -- one run -----------------------------------------------------------------------------------------------------

    async def _exchange(self, driver: AgentDriver) -> None:
        try:
            response = await self._send(driver.body)
            try:
                await self._read(driver, response)
            finally:
                with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                    await response.aclose()
        except WireError as error:
            driver.inbound.fail(error)

    async def _send(self, body: bytes) -> httpx.Response:
        try:
            headers = self._headers() if callable(self._headers) else self._headers
            headers = httpx.Headers(cast("Any", await headers if inspect.isawaitable(headers) else headers))
        except Exception as error:
            raise _not_sent(error) from error
        headers["content-type"] = "application/json"
        headers["accept"] = EVENT_STREAM
        try:
            client = self._client or await self._own_client()
            request = client.build_request("POST", self._url, content=body, headers=headers, timeout=self._timeout)
            request.stream = RequestBody(body)
            request.headers["accept-encoding"] = readable_encodings(request.headers.get("accept-encoding", ""))
            return await client.send(request, stream=True, follow_redirects=False)
        except httpx.HTTPStatusError as error:  # a hook of the client's owner was faster
            raise await _refusal(error.response) from error
        except Exception as error:
            raise transport_error(error, _shown(self._url) if self._url.host else "") from error

    async def _read(self, driver: AgentDriver, response: httpx.Response) -> None:
        content_type = response.headers.get("content-type")
        kind = EVENT_STREAM if content_type is None else content_type.partition(";")[0].strip().lower()
        if response.status_code != 200 or kind != EVENT_STREAM:
            raise await _refusal(response)
        if content_type is None:
            driver.warn(WarningRecord("encoding", "the answer has no Content-Type; it is read as an event stream"))

        def take(read: bytes) -> bool:
            if driver.is_reading:
                driver.publish(driver.inbound.feed(read))
            return driver.is_reading

        await read_body(response, take, idle_timeout=self._timeout.read)
        if driver.is_reading:
            driver.publish(driver.inbound.end())

    async def _own_client(self) -> httpx.AsyncClient:
        """The client of this event loop. It keeps no connections and no cookies: a run owes nothing to another.

        A connection that was kept may be gone when it is used again, and a request is never repeated.
        """
        trusted, loop = await _trusted_certificates(), _this_loop()
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = httpx.AsyncClient(
                verify=trusted,
                timeout=None,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            )
        return client

    def __repr__(self) -> str:
        return f"<HttpAgent {_shown(self._url)}>"


def _shown(url: httpx.URL) -> str:
    """A URL without what may be a secret in it."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _check_address(url: httpx.URL) -> None:
    """Raises `ValueError` for a URL that nobody can connect to, although httpx takes it."""
    if url.scheme not in ("http", "https"):
        raise ValueError(f"HttpAgent takes the http or https URL of an agent, not {str(url)!r}")
    if not url.host:
        raise ValueError(f"HttpAgent takes a URL that names a host, not {str(url)!r}")
    if (url.port or 0) > LAST_PORT:
        raise ValueError(f"HttpAgent takes a URL with a port of at most {LAST_PORT}, not {str(url)!r}")


def _this_loop() -> object:
    return anyio.lowlevel.current_token().native_token


_certificates: Settled[Ended[ssl.SSLContext]] | None = None


async def _trusted_certificates() -> ssl.SSLContext:
    """What clients of ours trust. It is read once, in a thread, since that takes longer than all the rest."""
    global _certificates
    if _certificates is None:
        _certificates = start_thread(httpx.create_ssl_context)
    return (await _certificates).unwrap()


def _not_sent(error: Exception) -> TransportError:
    return TransportError(f"nothing was sent: the headers could not be made: {error_line(error)}", phase="send")


async def _refusal(response: httpx.Response) -> HttpError:
    """An answer that is no stream, with as much of its body as comes in time."""
    body = bytearray()

    def take(read: bytes) -> bool:
        body.extend(read)
        return len(body) < ERROR_BODY_BYTES

    with anyio.move_on_after(ERROR_BODY_TIMEOUT), contextlib.suppress(TransportError):
        await read_body(response, take)  # the status says what is wrong; the body only adds to it
    content = bytes(body[:ERROR_BODY_BYTES])
    try:
        payload = parse_json(content)
    except ValueError:
        payload = None
    content_type = response.headers.get("content-type")
    said = content.decode(errors="replace")
    if "html" in (content_type or ""):
        said = _title_of(said)
    said = _text_of(payload) or said[:ERROR_TEXT]
    text = said or response.reason_phrase
    if response.status_code == 200:
        text = f"the answer is {content_type}, not {EVENT_STREAM}" + (said and f": {said}")
    location = response.headers.get("location")
    if location is not None and response.has_redirect_location:  # most often for the last slash of the path
        place = location.partition("?")[0]  # a query may hold a secret
        text += f"; the agent is at {place}, and redirects are not followed"
    return HttpError(
        f"HTTP {response.status_code}: {text}",
        status=response.status_code,
        content_type=content_type,
        location=location,
        body=content,
        payload=payload,
    )


def _title_of(page: str) -> str:
    """All that is of use of a page that was written for a browser; "" where it has none."""
    found = _TITLE.search(page)
    return " ".join(html.unescape(found[1]).split()) if found else ""


def _text_of(payload: Any) -> str | None:
    """The words of a JSON error body, in one of the places where servers put them."""
    if not isinstance(payload, dict):
        return None
    for key in ("detail", "message", "error"):
        found = cast("dict[str, Any]", payload).get(key)
        if isinstance(found, dict):
            found = _text_of(found)
        if isinstance(found, str) and found:
            return found
    return None
