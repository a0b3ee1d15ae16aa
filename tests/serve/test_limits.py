"""Nobody can hold the server: not by being slow, not by being many, not by leaving it without descriptors."""

import logging
import os
import resource
import select
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from queue import Queue
from typing import TYPE_CHECKING

import pytest
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.serve import DeferredResponse, Limits, Response, Server
from accelscope.serve import server as serve_loop

if TYPE_CHECKING:
    from tests.serve.conftest import Client

    Serve = Callable[..., Server]
    Connect = Callable[..., Client]

MOMENT_SECONDS = 5.0  # time enough for a busy machine to send a line
HUGE = b"x" * (32 << 20)  # more than any socket buffer takes


def test_a_head_that_does_not_end_is_408(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve(limits=Limits(head_seconds=MOMENT_SECONDS)))
    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
    assert client.answer().status == 408
    assert client.is_closed()


def test_dripping_bytes_does_not_move_the_deadline(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve(limits=Limits(head_seconds=1.0)))
    give_up = time.monotonic() + PATIENCE_SECONDS
    try:
        client.send(b"GET / HTTP/1.1\r\n")
        while not select.select([client.sock], [], [], 0.05)[0]:
            assert time.monotonic() < give_up, "still waiting"
            client.send(b"a: b\r\n")
        assert client.answer().status == 408
    except ConnectionError:
        pass  # its answer was overtaken by the end of the connection


def test_a_client_that_says_nothing_is_closed_without_a_word(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve(limits=Limits(head_seconds=0.1)))
    assert client.is_closed()


def test_the_next_request_has_its_own_deadline(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve(limits=Limits(head_seconds=MOMENT_SECONDS, idle_seconds=60)))
    assert client.get().status == 200
    client.send(b"GET /me")
    assert client.answer().status == 408


def test_idle_connections_are_closed(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve(limits=Limits(idle_seconds=0.1)))
    assert client.get().status == 200
    assert client.is_closed()


def test_a_client_that_does_not_read_is_dropped_and_nobody_waits_for_it(
    serve: "Serve", connect: "Connect"
) -> None:
    def handler(request: object) -> Response:
        return Response({"identity": HUGE})

    server = serve(
        {"/huge": handler, "/": lambda _: Response.text(200, "ok")}, limits=Limits(response_seconds=0.3)
    )
    sleepers = [connect(server, receive_buffer=4096) for _ in range(5)]
    for sleeper in sleepers:
        sleeper.send(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
    assert connect(server).get("/").status == 200
    time.sleep(1.5)  # who does not read cannot see that it was dropped
    assert connect(server).get("/").status == 200
    for sleeper in sleepers:
        # What was sent before it was dropped is some megabytes, which take long through a small buffer.
        sleeper.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        with pytest.raises(ConnectionError):
            sleeper.answer()


def test_a_slow_reader_gets_it_all(serve: "Serve", connect: "Connect") -> None:
    client = connect(serve({"/": lambda _: Response({"identity": HUGE[: 4 << 20]})}), receive_buffer=16384)
    assert len(client.get("/").body) == 4 << 20


def test_the_longest_idle_makes_room_for_the_next(serve: "Serve", connect: "Connect") -> None:
    server = serve(limits=Limits(connections=20))
    clients = []
    for _ in range(60):
        clients.append(connect(server))
        assert clients[-1].get().status == 200
    assert clients[0].is_closed()
    assert clients[39].is_closed()
    assert clients[-1].get().status == 200
    assert clients[45].get().status == 200


def test_two_hundred_at_once(serve: "Serve", connect: "Connect") -> None:
    server = serve()
    clients = [connect(server) for _ in range(200)]
    for client in clients:
        client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for client in clients:
        assert client.answer().body == b"page\n"


def test_when_all_are_busy_the_next_is_told_503(serve: "Serve", connect: "Connect") -> None:
    busy: Queue[DeferredResponse] = Queue()

    def handler(_: object) -> DeferredResponse:
        deferred = DeferredResponse()
        busy.put(deferred)
        return deferred

    server = serve({"/": handler}, limits=Limits(connections=2, slow_seconds=60))
    working = [connect(server).send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
    refused = connect(server)
    answer = refused.answer()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    for _ in working:
        deferred = busy.get(timeout=PATIENCE_SECONDS)
        deferred.complete(Response.text(200, "done"))
    for client in working:
        assert client.answer().status == 200


def test_slow_lorises_give_way(serve: "Serve", connect: "Connect") -> None:
    server = serve(limits=Limits(connections=10, slow_seconds=0.1, head_seconds=60))
    lorises = [connect(server).send(b"GET /") for _ in range(10)]
    for _ in range(20):
        for loris in lorises:
            loris.send(b"a")
        time.sleep(0.02)
    for _ in range(10):
        assert connect(server).get("/healthz").status == 200
    assert lorises[0].is_closed()


def test_slow_readers_give_way(serve: "Serve", connect: "Connect") -> None:
    routes = {"/huge": lambda _: Response({"identity": HUGE}), "/": lambda _: Response.text(200, "ok")}
    server = serve(routes, limits=Limits(connections=5, slow_seconds=0.1))
    readers = [connect(server, receive_buffer=4096) for _ in range(5)]
    for reader in readers:
        reader.send(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(20):
        for reader in readers:
            reader.sock.recv(1)
        time.sleep(0.02)
    assert connect(server).get("/").status == 200


@pytest.fixture
def descriptors() -> Callable[[], Callable[[], None]]:
    """Take every file descriptor there is; gives the function that lets them go."""

    def take() -> Callable[[], None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        taken: list[int] = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass

        def release() -> None:
            while taken:
                os.close(taken.pop())
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        return release

    return take


def test_without_descriptors_it_waits_and_then_goes_on(
    serve: "Serve",
    descriptors: Callable[[], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(serve_loop, "_PAUSE_SECONDS", 0.1)
    pauses: list[float] = []
    pause = serve_loop.Loop._pause

    def counted(loop: serve_loop.Loop, error: OSError, now: float) -> None:
        pauses.append(now)
        pause(loop, error, now)

    monkeypatch.setattr(serve_loop.Loop, "_pause", counted)
    server = serve()
    with socket.socket() as sock:
        sock.settimeout(PATIENCE_SECONDS)
        release = descriptors()
        try:
            sock.connect(server.address)
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            wait_until(lambda: len(pauses) > 3)
        finally:
            release()
        assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
    assert min(b - a for a, b in pairwise(pauses)) > 0.09, "it must not try all the time"
    said = [record.getMessage() for record in caplog.records if record.name == serve_loop.log.name]
    assert said == [
        "cannot accept connections: Too many open files",
        "accepting connections again",
    ]


def test_without_descriptors_an_idle_connection_makes_room(
    serve: "Serve", connect: "Connect", descriptors: Callable[[], Callable[[], None]]
) -> None:
    server = serve()
    idle = connect(server)
    assert idle.get().status == 200
    with socket.socket() as sock:
        sock.settimeout(PATIENCE_SECONDS)
        release = descriptors()
        try:
            sock.connect(server.address)
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
        finally:
            release()
    assert idle.is_closed()
