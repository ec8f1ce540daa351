"""What goes wrong between an agent behind HTTP and its server: the run fails, and the report says why."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import httpx
import pytest
from tests.agui.wires import sse
from tests.client.transports import ASKED, FINISHED, SAID, STARTED, answering, ended, serve, types_of

from handrail import CLIENT_ERROR_CODE, HttpAgent, RunScope
from handrail.errors import HttpError, RemoteDecodeError, RemoteProtocolError, TransportError, WireError


async def test_an_order_that_is_broken() -> None:
    """P-5, P-7, P-42: rule, event, index and ids are named, and nothing behind it is read."""
    stray = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m9", "delta": "x"}
    run = await ended(answering(STARTED, *SAID, stray, FINISHED))
    cause = run.report.cause
    assert isinstance(cause, RemoteProtocolError)
    assert isinstance(cause, WireError)
    assert (cause.kind, cause.event_type, cause.index) == ("protocol", "TEXT_MESSAGE_CONTENT", 4)
    assert cause.rule.startswith("P-")
    assert "the agent" in str(cause)
    assert "m9" in str(cause)
    assert types_of(run)[-1] == "TEXT_MESSAGE_END"
    assert run.result.value.final == "Hi."


async def test_a_shape_that_is_broken() -> None:
    """P-5, P-24: with the path into the event."""
    run = await ended(answering(STARTED, SAID[0] | {"messageId": 7}))
    cause = run.report.cause
    assert isinstance(cause, RemoteProtocolError)
    assert (cause.event_type, cause.path, cause.index) == ("TEXT_MESSAGE_START", "/messageId", 1)


async def test_a_payload_that_is_no_object() -> None:
    """P-5, P-16: with an excerpt of at most 200 characters."""
    run = await ended(serve(sse([STARTED]), b"data: [" + b"1," * 500 + b"1]\n\n"))
    cause = run.report.cause
    assert isinstance(cause, RemoteDecodeError)
    assert (cause.kind, cause.index) == ("decode", 1)
    assert 0 < len(cause.excerpt) <= 200


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b'{"detail": "no token"}', "no token", id="detail"),
        pytest.param(b'{"message": "no token"}', "no token", id="message"),
        pytest.param(b'{"error": "no token"}', "no token", id="error"),
        pytest.param(b'{"error": {"code": "x", "message": "no token"}}', "no token", id="error with a message"),
        pytest.param(b'{"detail": [{"msg": "x"}]}', '{"detail": [{"msg": "x"}]}', id="no text in it"),
        pytest.param(b"<h1>no token</h1>", "<h1>no token</h1>", id="no JSON"),
        pytest.param(b"x" * 1_000, "x" * 500, id="long"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text"),
        pytest.param(b"", "Unauthorized", id="nothing"),
    ],
)
async def test_a_status_that_is_not_200(body: bytes, text: str) -> None:
    """P-69, P-5: the status, and what the body says of it."""
    run = await ended(serve(body, status=401, headers={"content-type": "application/json", "location": "/login"}))
    cause = run.report.cause
    assert isinstance(cause, HttpError)
    assert (cause.kind, cause.status, cause.content_type, cause.location) == ("http", 401, "application/json", "/login")
    assert cause.body == body
    assert str(cause) == run.result.value.error == f"HTTP 401: {text}"
    assert run.report.code == CLIENT_ERROR_CODE
    assert types_of(run) == []


async def test_the_payload_of_an_error() -> None:
    """P-5: parsed where it is JSON, of whatever kind."""
    for body, payload in ((b'{"detail": "x"}', {"detail": "x"}), (b"[1]", [1]), (b"no", None)):
        run = await ended(serve(body, status=500, headers={}))
        assert run.report.cause.payload == payload


@pytest.mark.parametrize(
    ("content_type", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/html", False),
        ("application/x-ndjson", False),
        ("text/event-stream-like", False),
        ("", False),
    ],
)
async def test_content_types(content_type: str, is_stream: bool) -> None:
    """P-69: case and parameters do not count; another type is an error that names it."""
    run = await ended(serve(sse([STARTED, FINISHED]), headers={"content-type": content_type}))
    assert run.result.value.ok is is_stream
    if not is_stream:
        cause = run.report.cause
        assert isinstance(cause, HttpError)
        assert (cause.status, cause.content_type) == (200, content_type)
        assert str(cause).startswith(f"HTTP 200: the answer is {content_type}")


@pytest.mark.parametrize(
    ("page", "status", "said"),
    [
        (
            b"<html><head><title lang=de>Seite &amp;\n mehr</title></head><p>Lang</p></html>",
            405,
            "HTTP 405: Seite & mehr",
        ),
        (b"<p>no title</p>", 503, "HTTP 503: Service Unavailable"),
        (b"<!doctype html><TITLE>Shop</TITLE>", 200, "HTTP 200: the answer is text/html, not text/event-stream: Shop"),
        (b"<p>no title</p>", 200, "HTTP 200: the answer is text/html, not text/event-stream"),
        (b"<title>", 404, "HTTP 404: Not Found"),
    ],
)
async def test_of_a_web_page_only_the_title_is_said(page: bytes, status: int, said: str) -> None:
    """P-69: its markup tells nobody anything; the whole of it is in `body`."""
    run = await ended(serve(page, status=status, headers={"content-type": "text/html"}))
    assert str(run.report.cause) == said
    assert run.report.cause.body == page


async def test_no_content_type() -> None:
    """P-69: it is read as an event stream, with a warning."""
    run = await ended(serve(sse([STARTED, FINISHED]), headers={}))
    assert run.result.value.ok
    assert [record.code for record in run.report.warnings] == ["encoding"]


async def test_a_redirect_is_not_followed() -> None:
    """P-68, P-69: also where the client would; the place is named, and nothing is sent twice."""
    for status in (301, 302, 303, 307, 308):
        server = serve(b"", status=status, headers={"location": "http://elsewhere/agui"})
        client = httpx.AsyncClient(transport=server, follow_redirects=True)
        async with RunScope():
            run = HttpAgent("http://agent/agui", client=client).start(ASKED)
            await run.result
        assert (run.report.cause.status, run.report.cause.location) == (status, "http://elsewhere/agui")
        assert len(server.requests) == 1


async def test_a_request_is_never_repeated() -> None:
    """P-68: whatever it failed with."""
    for failure in (httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.PoolTimeout("full"), OSError("odd")):
        run = await ended(Failing(failure, asked := []))
        assert len(asked) == 1
        assert isinstance(run.report.cause, TransportError)
        assert run.report.cause.__cause__ is failure


async def test_who_could_not_be_reached_is_named() -> None:
    """P-71: with what to look at, and without what may be a secret in the address."""
    url = "http://me:secret@nobody.example:81/agui?key=secret"
    for failure, is_named in ((httpx.ConnectError("refused"), True), (httpx.ReadError("reset"), False)):
        async with RunScope(), httpx.AsyncClient(transport=Failing(failure, [])) as client:
            run = HttpAgent(url, client=client).start(ASKED)
            await run.result
        said = str(run.report.cause)
        assert ("does an agent listen at http://nobody.example:81/agui?" in said) is is_named
        assert "secret" not in said


class Failing(httpx.AsyncBaseTransport):
    """A connection that fails before there is an answer."""

    def __init__(self, failure: Exception, asked: list[httpx.Request]) -> None:
        self.failure = failure
        self.asked = asked

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        await anyio.lowlevel.checkpoint()
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "phase"),
    [
        (httpx.ConnectError("refused"), "connect"),
        (httpx.ConnectTimeout("slow"), "connect"),
        (httpx.PoolTimeout("full"), "connect"),
        (httpx.ProxyError("proxy"), "connect"),
        (httpx.WriteError("broken pipe"), "send"),
        (httpx.WriteTimeout("slow"), "send"),
        (httpx.LocalProtocolError("bad header"), "send"),
        (httpx.ReadError("reset"), "read"),
        (httpx.RemoteProtocolError("no HTTP"), "read"),
        (httpx.ReadTimeout("silent"), "idle"),
        (OSError("odd"), "read"),
    ],
)
async def test_phases(failure: Exception, phase: str) -> None:
    """P-5, P-71: what went wrong, and when; said of the connection and not of the agent."""
    run = await ended(Failing(failure, []))
    cause = run.report.cause
    assert isinstance(cause, TransportError)
    assert (cause.kind, cause.phase, cause.__cause__) == ("transport", phase, failure)
    assert str(failure) in str(cause)
    assert "connection" in str(cause)


async def test_a_reset_keeps_what_arrived() -> None:
    """P-71, P-43: the events, the text and the state."""
    run = await ended(serve(sse([STARTED, *SAID]), httpx.ReadError("reset")))
    assert (run.report.failure, run.report.cause.kind) == ("client", "transport")
    assert len(run.events.so_far()) == 4
    assert run.result.value.final == "Hi."


async def test_silence_in_memory() -> None:
    """P-70: the limit does not depend on who carries the bytes."""
    server = serve(sse([STARTED]), ends="never")
    with anyio.fail_after(5):
        run = await ended(server, idle_timeout=0.05)
    assert run.report.cause.phase == "idle"
    assert server.bodies[0].is_closed


async def test_hooks_of_the_client() -> None:
    """P-69: a client whose hooks read the answer, or raise for its status, gives the same."""

    async def reads(response: httpx.Response) -> None:
        await response.aread()

    async def raises(response: httpx.Response) -> None:
        response.raise_for_status()

    for hook in (reads, raises):
        for status in (200, 503):
            server = serve(sse([STARTED, FINISHED]), status=status)
            client = httpx.AsyncClient(transport=server, event_hooks={"response": [hook]})
            async with RunScope():
                run = HttpAgent("http://agent/", client=client).start(ASKED)
                await run.result
            assert run.result.value.ok is (status == 200)
            assert status == 200 or run.report.cause.status == 503
