"""The framing of event streams: lines, blocks, what is dropped, what is too long, and that cuts make no difference."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Sequence
from itertools import repeat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.wires import bytewise, every_cut, pieces

from handrail.agui._sse import EventStreamFraming
from handrail.errors import RemoteDecodeError

LIMIT = 1000


def framed(reads: Sequence[bytes], limit: int = LIMIT) -> list[bytes]:
    """The payloads of a body and, behind them, what its end cut off."""
    framing = EventStreamFraming(limit)
    payloads = [payload for read in reads for payload in framing.feed(read)]
    rest = framing.end()
    return payloads if rest is None else [*payloads, b"cut off: " + rest]


def feed_all(framing: EventStreamFraming, reads: Iterable[bytes], payloads: list[bytes]) -> None:
    for read in reads:
        payloads.extend(framing.feed(read))


def framed_in_every_cut(body: bytes) -> list[bytes]:
    first, *others = (framed(reads) for reads in every_cut(body))
    assert all(other == first for other in others)
    return first


def reference(body: bytes) -> list[bytes]:
    """The format's own algorithm, line by line, on a body that is all there."""
    body = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    payloads, data = [], []
    for line in body.split(b"\n")[:-1]:
        if not line:
            if joined := b"\n".join(data):
                payloads.append(joined)
            data = []
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value[1:] if value.startswith(b" ") else value)
    return payloads


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
        (b"data: a\n\r\ndata: b\n\n", [b"a", b"b"]),
        (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        ("data: a\u2028b\u2029c\u0085d\vf\fg\n\n".encode(), ["a\u2028b\u2029c\u0085d\vf\fg".encode()]),
    ],
)
def test_cr_lf_and_crlf_end_a_line_and_nothing_else_does(body: bytes, payloads: list[bytes]) -> None:
    """P-9: mixed line ends, also a CRLF cut in two; separators of Unicode are data."""
    assert framed_in_every_cut(body) == payloads


def test_a_crlf_cut_between_two_reads_is_one_line_end() -> None:
    """P-9: the LF that opens a read belongs to the CR that closed the read before, even with an empty read between."""
    assert framed([b"data: a\r", b"\n\r", b"", b"\ndata: b\r\n\r\n"]) == [b"a", b"b"]
    assert framed([b"data: a\r", b"", b"\n", b"data: b\n\n"]) == [b"a\nb"]


def test_a_code_point_cut_by_reads_is_whole() -> None:
    """P-10: the framing joins bytes, and decodes none."""
    assert framed(bytewise("data: é😀\n\n".encode())) == ["é😀".encode()]


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf"])
def test_one_byte_order_mark_at_the_start_is_dropped(mark: bytes) -> None:
    """P-11: at the very start, once; elsewhere it is data."""
    assert framed_in_every_cut(mark + b"data: a\n\n") == [b"a"]
    assert framed_in_every_cut(mark + mark + b"data: a\n\ndata: b\n\n") == [b"b"]
    assert framed_in_every_cut(b"data: " + mark + b"\n\n") == [mark]
    assert framed_in_every_cut(mark[:2] + b"\n\ndata: a\n\n") == [b"a"]
    assert framed_in_every_cut(mark[:2]) == []


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"data:a\n\ndata: b\n\ndata:  c\n\n", [b"a", b"b", b" c"]),
        (b"data: a\ndata: b\ndata\ndata: c\n\n", [b"a\nb\n\nc"]),
        (b"event: x\nid: 1\nretry: 5\nother\ndata: a\n: comment\n\n", [b"a"]),
        (b": x\n\n:\n\n: y\n\ndata: a\n\n", [b"a"]),
        (b"data:\n\ndata: \n\ndata\n\n\n", []),
        (b"data : a\n\nDATA: b\n\ndatax: c\n\n data: d\n\n", []),
        (b"data: a:b: c\n\n", [b"a:b: c"]),
    ],
)
def test_fields_of_a_block(body: bytes, payloads: list[bytes]) -> None:
    """P-12: one following space, several data lines, fields and comments that are ignored, blocks without data."""
    assert framed_in_every_cut(body) == payloads


@pytest.mark.parametrize(
    "before", [b"", b"\xef\xbb\xbf", b"x", b"data: a\n", b"data: a\r", b"id: 1\n", b":\n", b"data", b"\r"]
)
@pytest.mark.parametrize(
    "read",
    [
        b"data: b\n\n",
        b"data: \n\n",
        b"data: b\rc\n\n",
        b"data: b\n\n\n",
        b"data: b\n",
        b"data: b\nc",
        b"data: " + b"b" * LIMIT,
        b"id: 1\ndata: b\n\n",
        b"id: 1\ndata: b\ndata: c\n\n",
        b"data: b\nid: 1\n\n",
        b"id: data: b\n\n",
        b"id: 1\nx\n\n",
        b"\ndata: b\n\n",
        b"x",
    ],
)
def test_a_read_that_looks_like_one_block(before: bytes, read: bytes) -> None:
    """P-13: what was read before and what is in it decide what it is, as in any other cut."""
    reads = [b"data: first\n\n", before, read, b"\n\n"]
    try:
        expected = framed([b"".join(reads)])
    except RemoteDecodeError:
        with pytest.raises(RemoteDecodeError, match="limit"):
            framed(reads)
    else:
        assert framed(reads) == expected
    assert framed([before, b"data: b\n\n"]) == framed([before + b"data: b\n\n"])


def test_a_block_may_have_as_many_bytes_as_the_limit() -> None:
    """P-14: also when it comes as one read."""
    for before, data in ((b"", b"a" * (LIMIT - 6)), (b"id: 1\n", b"a" * (LIMIT - 11))):
        block = before + b"data: " + data
        assert framed([b"\n", block + b"\n\n"]) == framed([b"\n" + block + b"\n\n"]) == [data]
        with pytest.raises(RemoteDecodeError, match="limit"):
            framed([b"\n", block + b"a\n\n"])


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            b"data: ",
            b"data:",
            b"data",
            b": c",
            b"id: 1",
            b"x",
            b"{}",
            b"\n",
            b"\r",
            b"\r\n",
            b"\xef\xbb\xbf",
            b"\xff",
            b" ",
        ]
    ),
    max_size=30,
)


@effort(150)
@given(FRAGMENTS.map(b"".join), st.integers(0, 1000))
@example(b"\n\r\ndata: x\n\n", 0)
def test_cuts_make_no_difference(body: bytes, seed: int) -> None:
    """P-13: any split of any body gives the payloads of the whole, which are those of the format's own algorithm."""
    assert framed([body]) == framed(bytewise(body)) == framed(pieces(body, seed, longest=7))
    framing = EventStreamFraming(LIMIT)
    assert list(framing.feed(body)) == reference(body)


@effort(150)
@given(FRAGMENTS.map(b"".join), st.integers(0, 30), st.integers(0, 1000))
def test_what_is_too_long_is_so_in_every_cut(body: bytes, limit: int, seed: int) -> None:
    """P-13, P-14: payloads before the limit is broken, and whether it is, do not depend on the cut."""

    def outcome(reads: Sequence[bytes]) -> tuple[list[bytes], bool]:
        framing, payloads = EventStreamFraming(limit), []
        try:
            for read in reads:
                payloads.extend(framing.feed(read))
        except RemoteDecodeError:
            return payloads, True
        return payloads, False

    first = outcome([body])
    assert first == outcome(bytewise(body)) == outcome(pieces(body, seed, longest=7))


def test_a_block_has_at_most_so_many_bytes() -> None:
    """P-14: lines together, an unfinished one included; the refusal names the limit and follows what came before."""
    fits = b"data: " + b"x" * (LIMIT - 6)
    assert framed_in_every_cut(fits + b"\n\n") == [b"x" * (LIMIT - 6)]
    for body in (b"data: a\n\n" + fits + b"x\n\n", b"data: a\n\n" + fits + b"x", b"data: a\n\n" + b"data: x\n" * 143):
        for reads in every_cut(body):
            payloads: list[bytes] = []
            with pytest.raises(RemoteDecodeError, match="1000 bytes") as caught:
                feed_all(EventStreamFraming(LIMIT), reads, payloads)
            assert payloads == [b"a"]
            assert caught.value.kind == "decode"


@pytest.mark.parametrize("body", [b"xx", b"data", b"\xef\xbb\xbfxx"])
def test_the_smallest_limit_is_a_limit_from_the_first_byte(body: bytes) -> None:
    """P-14, P-11: what may be the beginning of a mark is put aside, and nothing else is."""
    for reads in every_cut(body):
        with pytest.raises(RemoteDecodeError, match="1 bytes"):
            feed_all(EventStreamFraming(1), reads, [])


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"data: {abc", "{abc"),
        (b"data:{abc", "{abc"),
        (b"data: a\ndata: bcd", "a\\nbcd"),
        (b"event: abc", "event: abc"),
        (b"data: a\nevent: abc", "a\\n"),
    ],
)
def test_what_is_too_long_is_shown_from_its_beginning(body: bytes, shown: str) -> None:
    """P-14, P-5: the data that came, and of a block without any the line."""
    for reads in every_cut(body):
        with pytest.raises(RemoteDecodeError) as caught:
            feed_all(EventStreamFraming(len(body.replace(b"\n", b"")) - 1), reads, [])
        assert caught.value.excerpt == shown
        assert str(caught.value).endswith(f"it begins: {shown}")


def test_finished_comments_do_not_count() -> None:
    """P-14: comments keep a connection alive for ever, within a block too; one endless comment line does not."""
    framing = EventStreamFraming(LIMIT)
    assert [list(framing.feed(b": still here\n")) for _ in range(1000)] == [[]] * 1000
    assert list(framing.feed(b"data: a\n" + b": x\n" * 1000 + b"\n")) == [b"a"]
    with pytest.raises(RemoteDecodeError):
        list(framing.feed(b":" * (LIMIT + 1)))


def test_a_line_of_a_megabyte_and_a_half_is_delivered() -> None:
    """P-14: with the default limit; in reads of 64 KiB."""
    body = b"data: " + b"x" * 1_500_000 + b"\n\n"
    framing = EventStreamFraming(16 * 2**20)
    got = [payload for at in range(0, len(body), 65536) for payload in framing.feed(body[at : at + 65536])]
    assert list(map(len, got)) == [1_500_000]


@pytest.mark.parametrize("read", [b"x" * 4096, b"data: x\n" * 512], ids=["one line", "many lines"])
def test_memory_is_bounded_by_the_limit(read: bytes) -> None:
    """P-14: an endless block is refused at the limit, having held little more than that."""
    limit = 2**18
    tracemalloc.start()
    try:
        with pytest.raises(RemoteDecodeError):
            feed_all(EventStreamFraming(limit), repeat(read), [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * limit + 200 * len(read)


def test_time_is_linear_in_the_bytes() -> None:
    """P-14: each byte of a long line, fed bytewise, is put aside once: the steps do not grow with what is held."""
    framing = EventStreamFraming(2**20)
    for _ in range(200_000):
        list(framing.feed(b"x"))
    assert framing.end() is None


@pytest.mark.parametrize(
    ("body", "rest"),
    [
        (b"data: a", [b"cut off: a"]),
        (b"data: a\n", [b"cut off: a"]),
        (b"data: a\r", [b"cut off: a"]),
        (b"data: a\ndata: b", [b"cut off: a\nb"]),
        (b"data: a\n\n", [b"a"]),
        (b": comment", []),
        (b"event: x", []),
        (b"", []),
    ],
)
def test_the_end_of_the_body_gives_what_it_cut_off(body: bytes, rest: list[bytes]) -> None:
    """P-15: the data of an unfinished block, for the reader to judge."""
    assert framed_in_every_cut(body) == rest
