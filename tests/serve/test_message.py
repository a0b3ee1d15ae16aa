"""Bytes of a request are understood, or refused with the status that says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.serve import Request, Response
from accelscope.serve.message import Head, RequestError, parse_head


def test_a_request_with_everything() -> None:
    head = parse_head(
        b"GET /a%20b/%E2%82%AC?x=1&y=%20#z HTTP/1.1\r\nHost: node:9400\r\nAccept:  a \r\naccept: b\r\n"
        b"X-Empty:\r\nContent-Length: 3",
        peer="10.0.0.1",
        certified=True,
    )
    headers = {"host": "node:9400", "accept": "a, b", "x-empty": "", "content-length": "3"}
    request = Request("GET", "/a b/€", "x=1&y=%20", headers, "10.0.0.1", certified=True)
    assert head == Head(request, keep_alive=True, body_bytes=3)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", "/", ""),
        ("//a//", "//a//", ""),
        ("/..%2f..%2fetc", "/../../etc", ""),
        ("/a?b?c", "/a", "b?c"),
        ("?q", "/", "q"),
        ("http://node:9400/metrics?x", "/metrics", "x"),
        ("http://node", "/", ""),
        ("*", "*", ""),
    ],
)
def test_targets(target: str, path: str, query: str) -> None:
    request = parse_head(f"GET {target} HTTP/1.0".encode()).request
    assert (request.path, request.query) == (path, query)


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        ("1.1", None, True),
        ("1.1", "keep-alive", True),
        ("1.1", "close", False),
        ("1.1", "Upgrade, Close", False),
        ("1.9", None, True),
        ("1.0", None, False),
        ("1.0", "keep-alive", False),
    ],
)
def test_who_keeps_the_connection(version: str, connection: str | None, keep_alive: bool) -> None:
    field = f"\r\nConnection: {connection}" if connection else ""
    assert parse_head(f"GET / HTTP/{version}\r\nHost: x{field}".encode()).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /", 400),
        ("GET / HTTP/1", 400),
        ("GET / HTTP/11", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET / HTTP/1.1 ", 400),
        ("GET /a b HTTP/1.1", 400),
        ("G(T / HTTP/1.1", 400),
        (" GET / HTTP/1.1", 400),
        ("get / http/1.1", 400),
        ("PRI * HTTP/2.0", 505),
        ("GET / HTTP/3.0", 505),
        ("GET / HTTP/0.9", 505),
        ("GET / HTTP/1.1", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        ("GET / HTTP/1.0\r\nno colon", 400),
        ("GET / HTTP/1.0\r\nName : x", 400),
        ("GET / HTTP/1.0\r\nA: b\r\n folded", 400),
        ("GET / HTTP/1.0\r\n: x", 400),
        ("GET / HTTP/1.0\r\nA: b\0c", 400),
        ("GET / HTTP/1.0\r\nA: b\rc", 400),
        ("GET /%00 HTTP/1.0", 400),
        ("GET /%0d%0aX:%20y HTTP/1.0", 400),
        ("GET /%ff HTTP/1.0", 400),
        ("GET /\x80 HTTP/1.0", 400),
        ("GET / HTTP/1.0\r\nContent-Length: -1", 400),
        ("GET / HTTP/1.0\r\nContent-Length: 1x", 400),
        ("GET / HTTP/1.0\r\nContent-Length: 1, 1", 400),
        ("GET / HTTP/1.0\r\nContent-Length: 1\r\nContent-Length: 1", 400),
        ("GET / HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked", 411),
        ("GET / HTTP/1.0" + "\r\nA: b" * 101, 431),
    ],
)
def test_refusals(head: str, status: int) -> None:
    with pytest.raises(RequestError) as raised:
        parse_head(head.encode("latin-1"))
    assert raised.value.response.status == status


@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    b"GET ",
                    b"/",
                    b"%",
                    b"%41",
                    b"?",
                    b" HTTP/1.1",
                    b" HTTP/1.0",
                    b"\r\n",
                    b"\n",
                    b"Host: x",
                    b"\xff",
                ]
            ),
            max_size=12,
        ).map(b"".join),
    )
)
def test_any_bytes_are_a_request_or_a_refusal(head: bytes) -> None:
    try:
        path = parse_head(head).request.path
    except RequestError:
        return
    assert path.isprintable()


GET = Request("GET", "/", "", {})
HEAD = Request("HEAD", "/", "", {"accept-encoding": "gzip"})
PAGE = Response({"identity": b"hello", "gzip": b"zip"}, content_type="text/x", headers=(("A", "b"),))


@pytest.mark.parametrize(
    ("response", "request_", "close", "expected"),
    [
        (
            Response.text(404, "no"),
            GET,
            False,
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\n"
            b"no\n",
        ),
        (
            PAGE,
            GET,
            True,
            b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 5\r\nVary: Accept-Encoding\r\n"
            b"A: b\r\nConnection: close\r\n\r\nhello",
        ),
        (
            PAGE,
            HEAD,
            False,
            b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n"
            b"Vary: Accept-Encoding\r\nA: b\r\n\r\n",
        ),
        (
            Response({"identity": b""}, 299),
            None,
            True,
            b"HTTP/1.1 299 Status\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 0\r\n"
            b"Connection: close\r\n\r\n",
        ),
        (
            Response.not_modified(("ETag", '"a"')),
            GET,
            False,
            b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n',
        ),
    ],
)
def test_responses_as_bytes(
    response: Response, request_: Request | None, close: bool, expected: bytes
) -> None:
    assert b"".join(response.encode(request_, close=close)) == expected


def test_a_header_cannot_be_smuggled_in() -> None:
    with pytest.raises(ValueError, match="line break"):
        Response.text(200, "ok", ("Location", "/\r\nSet-Cookie: x"))
