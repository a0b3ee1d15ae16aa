"""What a well-behaved client sees, and what one that is not sees."""

import http.client
import logging
import socket
import struct
import threading
from collections.abc import Callable
from queue import Queue
from typing import TYPE_CHECKING

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.serve import DeferredResponse, Limits, Request, Response, Route, ServeError, Server

if TYPE_CHECKING:
    from tests.serve.conftest import Client

    Serve = Callable[..., Server]
    Connect = Callable[..., Client]

BIG = b"0123456789abcdef" * 65536  # 1 MiB


def test_the_standard_library_agrees(serve: "Serve") -> None:
    host, port = serve({"/metrics": lambda _: Response({"identity": BIG})}).address
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    for _ in range(3):
        connection.request("GET", "/metrics?x=1")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, BIG)
    connection.request("HEAD", "/metrics")
    response = connection.getresponse()
    assert (response.getheader("Content-Length"), response.read()) == (str(len(BIG)), b"")
    connection.close()


def test_the_handler_sees_the_request(serve: "Serve", connect: "Connect") -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response.text(200, "ok")

    connect(serve({"/a b": handler})).get("/a%20b?q=%20", "Accept: text/plain")
    (request,) = seen
    assert (request.method, request.path, request.query) == ("GET", "/a b", "q=%20")
    assert request.headers["accept"] == "text/plain"
    assert request.peer == "127.0.0.1"
    assert not request.certified


def test_gzip_where_the_client_takes_it(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve({"/metrics": lambda _: Response({"identity": b"plain", "gzip": b"small"})}))
    assert client.get().body == b"plain"
    answer = client.get("/metrics", "Accept-Encoding: gzip;q=0.5")
    assert (answer.body, answer.headers["content-encoding"]) == (b"small", "gzip")
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("request_", "status", "closes"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, False),
        (b"\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, False),
        (b"GET /metrics HTTP/1.1\nHost: x\n\n", 200, False),
        (b"GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, False),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200, True),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, True),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 200, False),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404, False),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404, False),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405, False),
        (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, False),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", 413, True),
        (
            b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            417,
            True,
        ),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 411, True),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400, True),
        (b"GET /metrics\r\n\r\n", 400, True),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, True),
        (b"\0" * 100, 400, True),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, True),
        (b"GET /" + b"a" * 9000, 414, True),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, True),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 17000, 431, True),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 17000 + b"\r\n\r\n", 431, True),
        (b"A" * 2_000_000, 414, True),
    ],
)
def test_statuses(serve: "Serve", connect: "Connect", request_: bytes, status: int, closes: bool) -> None:
    client = connect(serve())
    try:
        client.send(request_)
    except ConnectionError:
        assert len(request_) > 1_000_000  # the server stops listening to one that never ends
        return
    answer = client.answer()
    assert answer.status == status
    assert ("connection" in answer.headers) is closes
    if status == 405:
        assert answer.headers["allow"] == "GET, HEAD"
    if closes:
        assert client.is_closed()
    else:
        assert client.get("/healthz").body == b"ok\n"


def test_pipelined_requests_are_answered_in_order(serve: "Serve", connect: "Connect") -> None:
    def handler(request: Request) -> Response:
        return Response({"identity": request.query.encode() + BIG[:100_000]})

    client = connect(serve({"/": handler}))
    client.send(b"".join(b"GET /?%03d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(200)))
    for number in range(200):
        assert client.answer().body[:3] == b"%03d" % number


def test_a_request_may_come_in_any_pieces(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve())
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
        client.send(bytes([number]))
    assert client.answer().body == b"page\n"


def test_a_client_that_ends_its_side_still_gets_its_answer(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve({"/metrics": lambda _: Response({"identity": BIG})}))
    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    client.sock.shutdown(socket.SHUT_WR)
    assert client.answer().body == BIG
    assert client.answer().body == BIG
    assert client.is_closed()


def test_a_failing_page_is_500_and_logged_once_per_change(
    serve: "Serve", connect: "Connect", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    problem: list[str | None] = ["first"]

    def handler(_: Request) -> Response:
        if problem[0] is not None:
            raise RuntimeError(problem[0])
        return Response.text(200, "ok")

    client = connect(serve({"/": handler}))
    for value, status in [("first", 500), ("first", 500), ("second", 500), (None, 200), (None, 200)]:
        problem[0] = value
        assert client.get("/").status == status
    said = [record.getMessage() for record in caplog.records if record.name == "accelscope.serve.routing"]
    assert said == [
        "request handler failed",
        "request handler failed",
        "request handler works again",
    ]


def test_another_thread_may_give_the_answer(serve: "Serve", connect: "Connect") -> None:
    def later(_: Request) -> DeferredResponse:
        deferred = DeferredResponse()
        threading.Timer(0.05, lambda: deferred.complete(Response.text(200, "later"))).start()
        return deferred

    def at_once(_: Request) -> DeferredResponse:
        deferred = DeferredResponse()
        deferred.complete(Response.text(200, "at once"))
        deferred.complete(Response.text(200, "too late"))
        return deferred

    client = connect(serve({"/later": later, "/at-once": at_once}))
    client.send(b"GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /at-once HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.answer().body == b"later\n"
    assert client.answer().body == b"at once\n"
    assert client.get("/later", method="HEAD").status == 200


def test_an_answer_that_does_not_come_is_503(serve: "Serve", connect: "Connect") -> None:
    forgotten = DeferredResponse()
    client = connect(serve({"/": lambda _: forgotten}, limits=Limits(deferred_seconds=0.1)))
    assert client.get("/").status == 503
    assert client.is_closed()
    forgotten.complete(Response.text(200, "too late"))


def test_a_client_that_leaves_while_its_answer_is_made_costs_nothing(
    serve: "Serve", connect: "Connect"
) -> None:
    asked: Queue[DeferredResponse] = Queue()

    def handler(request: Request) -> Response | DeferredResponse:
        if request.query:
            return Response.text(200, "ok")
        deferred = DeferredResponse()
        asked.put(deferred)
        return deferred

    server = serve({"/": handler})
    leaver = connect(server).send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    deferred = asked.get(timeout=PATIENCE_SECONDS)
    assert connect(server).get("/?now").status == 200
    leaver.sock.close()
    deferred.complete(Response({"identity": BIG}))
    assert connect(server).get("/?now").status == 200


def test_every_address_is_both_families(serve: "Serve", connect: "Connect") -> None:
    server = serve(host="")
    assert connect(server, "127.0.0.1").get().status == 200
    if server.address[0] == "::":
        assert connect(server, "::1").get().status == 200


def test_without_ipv6_it_is_ipv4(serve: "Serve", connect: "Connect", monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def without_ipv6(family: int = socket.AF_INET, *rest: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", without_ipv6)
        server = serve(host="")
    assert server.address[0] == "0.0.0.0"
    assert connect(server).get().status == 200


@pytest.mark.parametrize(("host", "where"), [("127.0.0.1", "127.0.0.1, port {port}"), ("", "port {port}")])
def test_a_port_in_use_is_one_clear_line(serve: "Serve", host: str, where: str) -> None:
    port = serve(host="").address[1]
    with pytest.raises(ServeError) as raised:
        Server({}, host=host, port=port).start()
    problem = "Address already in use; choose another port with --exporter-port"
    assert str(raised.value) == f"cannot listen on {where.format(port=port)}: {problem}"


@pytest.mark.parametrize("host", ["203.0.113.1", "no such host", "a" * 300])
def test_an_address_that_is_not_ours_is_an_error(host: str) -> None:
    with pytest.raises(ServeError, match="cannot listen on"):
        Server({}, host=host, port=0).start()


def test_stopping_closes_everything_and_frees_the_port(serve: "Serve", connect: "Connect") -> None:
    server = serve()
    client = connect(server)
    assert client.get().status == 200
    server.stop()
    server.stop()
    assert client.is_closed()
    again = serve(port=server.address[1])
    assert connect(again).get().status == 200


def test_a_server_that_never_started_has_no_address() -> None:
    server = Server({})
    server.stop()
    with pytest.raises(ServeError):
        _ = server.address


def test_resets_at_any_moment_cost_nothing(serve: "Serve", connect: "Connect") -> None:
    server = serve({"/metrics": lambda _: Response({"identity": BIG})})
    for words in (b"", b"GET", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 50) * 20:
        client = connect(server).send(words)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sock.close()
    assert connect(server).get().body == BIG


def test_a_guarded_route_is_open_where_nothing_guards(serve: "Serve", connect: "Connect") -> None:
    server = serve({"/": Route(lambda _: Response.text(200, "ok"), guarded=True)})
    assert connect(server).get("/").status == 200
