"""Answers of HTTP/1.1 from bytes, however they are cut, and requests as bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.kube.message import (
    CHUNK_LINE_LIMIT,
    FIELDS_LIMIT,
    HEAD_LIMIT,
    MessageError,
    ResponseParser,
    TruncatedMessage,
    write_request,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def parse(content: bytes, *, piece: int | None = None, closed: bool = False) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    size = piece or max(len(content), 1)
    body = b"".join(parser.feed(content[at : at + size]) for at in range(0, len(content), size))
    if closed:
        parser.close()
    return parser, body


@pytest.mark.parametrize("piece", [None, 1, 2, 3, 7])
@pytest.mark.parametrize(
    ("content", "status", "body", "reusable"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
        (OK + b"content-length:5\r\nConnection: close\r\n\r\nhello", 200, b"hello", False),
        (OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True),
        (OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", 200, b"hello", True),
        (CHUNKED + b"5;a=b\r\nhello\r\n3 \r\n wo\r\n0\r\nX-Later: 1\r\n\r\n", 200, b"hello wo", True),
        (CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", 200, b"0123456789", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b"", True),
        (b"HTTP/1.1 403\r\nContent-Length: 2\r\n\r\nno", 403, b"no", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True),
        (OK + b"Content-Length: 2\r\n\r\nok unasked", 200, b"ok", False),
    ],
)
def test_answers(content: bytes, status: int, body: bytes, reusable: bool, piece: int | None) -> None:
    parser, found = parse(content, piece=piece)
    assert parser.head is not None
    assert (parser.head.status, found, parser.finished) == (status, body, True)
    assert parser.reusable is reusable


def test_a_body_may_end_with_the_connection() -> None:
    parser, body = parse(OK + b"\r\nall of it", closed=True)
    assert (body, parser.finished, parser.reusable) == (b"all of it", True, False)


def test_header_fields_are_found_by_lower_case_name_and_joined() -> None:
    parser, _ = parse(OK + b"Retry-After:  7 \r\nVary: A\r\nvary: B\r\nContent-Length: 0\r\n\r\n")
    assert parser.head is not None
    assert (parser.head.headers["retry-after"], parser.head.headers["vary"]) == ("7", "A, B")


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"A: b\r\n folded: c\r\n\r\n",
        OK + b"A: b\x00\r\n\r\n",
        OK + b"Content-Length: five\r\n\r\n",
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 5, 6\r\n\r\n",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"ffffffffffffffffffff\r\n",
        CHUNKED + b"3\r\nhello\r\n",
        CHUNKED + b"1" * (CHUNK_LINE_LIMIT + 1),
        CHUNKED + b"0\r\n" + b"X: y\r\n" * (FIELDS_LIMIT + 2),
        b"H" * HEAD_LIMIT,
        OK + b"X: " + b"y" * HEAD_LIMIT,
        OK + b"X: y\r\n" * (FIELDS_LIMIT + 1) + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 11,
    ],
)
@pytest.mark.parametrize("piece", [None, 100])
def test_what_is_no_answer(content: bytes, piece: int | None) -> None:
    with pytest.raises(MessageError):
        parse(content, piece=piece)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 2",
        OK,
        OK + b"Content-Length: 5\r\n\r\nhell",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"0\r\n",
    ],
)
def test_what_is_cut_off(content: bytes) -> None:
    with pytest.raises(TruncatedMessage):
        parse(content, closed=True)


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_raise_anything_else(content: bytes, piece: int) -> None:
    for prefix in (b"", OK, OK + b"Content-Length: 20\r\n\r\n", CHUNKED):
        with suppress(MessageError):
            parse(prefix + content, piece=piece, closed=True)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.integers(1, 500))
def test_chunks_are_joined_however_they_arrive(chunks: list[bytes], piece: int) -> None:
    content = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    parser, body = parse(content, piece=piece)
    assert (parser.finished, body) == (True, b"".join(chunks))


def test_requests() -> None:
    assert write_request("GET", "/api/v1/pods?a=%20b", [("Host", "x"), ("Accept", "*/*")]) == (
        b"GET /api/v1/pods?a=%20b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"
    )
    assert write_request("PATCH", "/n", [("Host", "x")], b"{}").endswith(b"\r\nContent-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        ("GE T", "/", ("A", "b")),
        ("GET", "no-slash", ("A", "b")),
        ("GET", "/a b", ("A", "b")),
        ("GET", "/a\r\nX: y", ("A", "b")),
        ("GET", "/é", ("A", "b")),
        ("GET", "/#f", ("A", "b")),
        ("GET", "/", ("A\r\n", "b")),
        ("GET", "/", ("A", "secret\r\nX: y")),
        ("GET", "/", ("A", "é")),
    ],
)
def test_requests_that_would_be_something_else_on_the_wire(
    method: str, target: str, header: tuple[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"not a|invalid header") as caught:
        write_request(method, target, [header])
    assert "secret" not in str(caught.value)
