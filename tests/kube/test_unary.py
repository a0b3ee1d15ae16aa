"""The small gRPC client against grpcio's server, and against peers that do not behave."""

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import grpc
import h2.config
import h2.connection
import h2.events
import pytest
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.kube.unary import LIMIT_BYTES, UnaryError, UnaryReason, unary_call

METHOD = "/test.Service/Ask"
PATIENCE = 20.0
SHORT = 0.5
LONGER = 3.0  # where the other side must have been heard by then

Answer = Callable[[bytes, grpc.ServicerContext], bytes]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "peer.sock")


@contextmanager
def served(path: str, answer: Answer) -> Iterator[grpc.Server]:
    server = grpc.server(
        ThreadPoolExecutor(max_workers=4),
        [
            grpc.method_handlers_generic_handler(
                "test.Service", {"Ask": grpc.unary_unary_rpc_method_handler(answer)}
            )
        ],
        options=[("grpc.max_send_message_length", -1)],
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield server
    finally:
        server.stop(grace=None).wait()


def ask(path: str, request: bytes = b"", *, limit: int = LIMIT_BYTES) -> bytes:
    return unary_call(path, METHOD, request, timeout_seconds=PATIENCE, limit_bytes=limit)


def failure(
    path: str, *, timeout: float = PATIENCE, method: str = METHOD, limit: int = LIMIT_BYTES
) -> UnaryError:
    with pytest.raises(UnaryError) as caught:
        unary_call(path, method, timeout_seconds=timeout, limit_bytes=limit)
    assert "\n" not in caught.value.text
    assert str(caught.value) == caught.value.text
    return caught.value


@pytest.mark.parametrize("request_bytes", [b"", b"x", bytes(16_000)])
def test_the_request_arrives_and_the_answer_returns(path: str, request_bytes: bytes) -> None:
    with served(path, lambda request, _: b"got " + request):
        assert ask(path, request_bytes) == b"got " + request_bytes


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_536, 5_000_000])
def test_answers_of_any_size_arrive_whole(path: str, size: int) -> None:
    answer = os.urandom(size)
    with served(path, lambda *_: answer):
        assert ask(path) == answer


def test_a_request_that_one_frame_does_not_take_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        ask(path, bytes(20_000))


def test_an_answer_over_the_limit_is_not_taken(path: str) -> None:
    with served(path, lambda *_: bytes(100_000)):
        assert len(ask(path, limit=100_000)) == 100_000
        assert failure(path, limit=99_999).reason is UnaryReason.TOO_LARGE


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "unavailable"),
        (grpc.StatusCode.UNIMPLEMENTED, "unimplemented"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "timeout"),
        (grpc.StatusCode.PERMISSION_DENIED, "no_permission"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "server_error"),
        (grpc.StatusCode.INTERNAL, "server_error"),
    ],
)
def test_a_status_becomes_a_reason(path: str, status: grpc.StatusCode, reason: str) -> None:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(status, "grün 50% voll\nsecond line")
        raise AssertionError

    with served(path, refuse):
        error = failure(path)
    assert error.reason == reason
    assert "grün 50% voll second line" in error.text


def test_a_long_message_of_the_server_is_cut(path: str) -> None:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "long " * 500)
        raise AssertionError

    with served(path, refuse):
        assert len(failure(path).text) < 400


def test_a_method_that_is_not_there(path: str) -> None:
    with served(path, lambda *_: b""):
        assert failure(path, method="/test.Service/Other").reason is UnaryReason.UNIMPLEMENTED


def test_a_slow_answer_is_given_up_and_the_server_was_told_how_long_to_try(path: str) -> None:
    told: list[float | None] = []
    release = threading.Event()

    def wait(_: bytes, context: grpc.ServicerContext) -> bytes:
        told.append(context.time_remaining())
        release.wait(2 * PATIENCE_SECONDS)
        return b""

    seconds = LONGER
    with served(path, wait):
        while True:
            started = time.monotonic()
            assert failure(path, timeout=seconds).reason is UnaryReason.TIMEOUT
            assert time.monotonic() - started < seconds + PATIENCE / 2
            if told:
                break
            assert seconds < PATIENCE_SECONDS, "it was never heard"
            seconds *= 4
        release.set()
    assert told[0] is not None
    assert told[0] <= seconds


def test_a_server_that_comes_back_is_found_again(path: str) -> None:
    with served(path, lambda *_: b"first"):
        assert ask(path) == b"first"
    assert failure(path).reason in (UnaryReason.NO_SOCKET, UnaryReason.REFUSED)
    with served(path, lambda *_: b"second"):
        assert ask(path) == b"second"


def test_a_socket_that_was_replaced_leads_to_the_new_server(path: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.sock")
    with served(path, lambda *_: b"old"), served(other, lambda *_: b"new"):
        assert ask(path) == b"old"
        Path(other).rename(path)
        assert ask(path) == b"new"


def test_no_socket(path: str) -> None:
    error = failure(path)
    assert error.reason is UnaryReason.NO_SOCKET
    assert path in error.text
    Path(path).touch()
    assert failure(f"{path}/below-a-file").reason is UnaryReason.NO_SOCKET


def test_a_socket_that_nobody_serves(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
    assert failure(path).reason is UnaryReason.REFUSED


def test_what_is_no_socket(path: str) -> None:
    Path(path).write_text("a file")
    assert failure(path).reason is UnaryReason.REFUSED


def test_a_path_that_is_too_long_is_said_to_be(tmp_path: Path) -> None:
    assert "too long" in failure(f"{tmp_path}/{'x' * 200}").text


def test_a_socket_that_may_not_be_opened(
    path: str, ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        Path(path).chmod(0)
        with ordinary_user():
            assert failure(path).reason is UnaryReason.NO_PERMISSION


def test_a_server_whose_queue_is_full(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(path)
        busy.listen(0)
        waiting.connect(path)
        assert failure(path, timeout=SHORT).reason is UnaryReason.UNAVAILABLE


# Peers that do not behave, each a function of the accepted connection.

Behaviour = Callable[[socket.socket], None]
SETTINGS, HEADERS, DATA, RESET, GO_AWAY, PING = 4, 1, 0, 3, 7, 6


@contextmanager
def peer(path: str, behave: Behaviour) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(PATIENCE)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                with suppress(BrokenPipeError, ConnectionResetError):  # once the client has seen enough
                    behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def frame(kind: int, payload: bytes, *, stream: int = 0, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def drain(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def http_server(connection: socket.socket) -> h2.connection.H2Connection:
    """One that has taken the whole request."""
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    server.initiate_connection()
    connection.sendall(server.data_to_send())
    while True:
        events = server.receive_data(connection.recv(65536))
        connection.sendall(server.data_to_send())
        if any(isinstance(event, h2.events.StreamEnded) for event in events):
            return server


def says(words: bytes) -> Behaviour:
    """Says that, whatever it is asked, and nothing more."""

    def behave(connection: socket.socket) -> None:
        connection.sendall(words)
        connection.shutdown(socket.SHUT_WR)
        drain(connection)

    return behave


def answers(
    body: bytes,
    *,
    status: str = "200",
    content_type: str = "application/grpc",
    trailers: list[tuple[str, str]] | None = None,
    go_away: bool = False,
) -> Behaviour:
    """Answers in HTTP/2 as it should be, but for what is given."""

    def behave(connection: socket.socket) -> None:
        server = http_server(connection)
        server.send_headers(1, [(":status", status), ("content-type", content_type)])
        server.send_data(1, body, end_stream=trailers is None)
        if trailers is not None:
            server.send_headers(1, trailers, end_stream=True)
        if go_away:
            server.close_connection()
        connection.sendall(server.data_to_send())
        drain(connection)

    return behave


OK = [("grpc-status", "0")]
HELLO = b"\0\0\0\0\5hello"


def test_an_answer_and_a_farewell_in_one_go_are_an_answer(path: str) -> None:
    with peer(path, answers(HELLO, trailers=OK, go_away=True)):
        assert ask(path) == b"hello"


BAD_ANSWERS: dict[str, Behaviour] = {
    "closes at once": lambda connection: None,
    "garbage": says(os.urandom(4096)),
    "HTTP/1": says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "only settings": says(frame(SETTINGS, b"")),
    "half a frame": says(frame(SETTINGS, b"")[:5]),
    "data before headers": says(frame(SETTINGS, b"") + frame(DATA, b"x", stream=1)),
    "headers that are none": says(frame(SETTINGS, b"") + frame(HEADERS, b"\xff" * 50, stream=1, flags=4)),
    "reset": says(frame(SETTINGS, b"") + frame(RESET, b"\0\0\0\2", stream=1)),
    "go away with an error": says(frame(SETTINGS, b"") + frame(GO_AWAY, bytes(7) + b"\1")),
    "no status": answers(HELLO),
    "a status that is no number": answers(HELLO, trailers=[("grpc-status", "fine")]),
    "HTTP status 404": answers(HELLO, status="404", trailers=OK),
    "a web page": answers(b"<html>", content_type="text/html"),
    "no message": answers(b"", trailers=OK),
    "less than was said": answers(b"\0\0\0\0\6hello", trailers=OK),
    "two messages": answers(HELLO + HELLO, trailers=OK),
    "compressed": answers(b"\1\0\0\0\5hello", trailers=OK),
}


@pytest.mark.parametrize("behaviour", BAD_ANSWERS)
def test_what_is_no_answer_is_a_bad_answer(path: str, behaviour: str) -> None:
    with peer(path, BAD_ANSWERS[behaviour]):
        assert failure(path).reason is UnaryReason.BAD_ANSWER


@pytest.mark.parametrize(
    "behave",
    [says(frame(SETTINGS, b"") + frame(GO_AWAY, bytes(8))), answers(b"", status="503")],
    ids=["go-away", "503"],
)
def test_a_server_that_shuts_down_is_unavailable(path: str, behave: Behaviour) -> None:
    with peer(path, behave):
        assert failure(path).reason is UnaryReason.UNAVAILABLE


def test_a_size_that_is_announced_is_not_waited_for(path: str) -> None:
    with peer(path, answers(b"\0" + struct.pack(">I", 1 << 31))):
        assert failure(path).reason is UnaryReason.TOO_LARGE


def test_a_peer_that_says_nothing(path: str) -> None:
    with peer(path, drain):
        assert failure(path, timeout=SHORT).reason is UnaryReason.TIMEOUT


def test_a_peer_that_keeps_talking_does_not_move_the_deadline(path: str) -> None:
    answered: list[bytes] = []

    def ping(connection: socket.socket) -> None:
        connection.sendall(frame(SETTINGS, b""))
        for number in range(10_000):
            connection.sendall(frame(PING, number.to_bytes(8, "big")))
            answered.append(connection.recv(65536))
            time.sleep(0.01)

    with peer(path, ping):
        started = time.monotonic()
        assert failure(path, timeout=LONGER).reason is UnaryReason.TIMEOUT
        assert time.monotonic() - started < PATIENCE / 2
    assert any(frame(PING, (1).to_bytes(8, "big"), flags=1) in received for received in answered)


def test_a_peer_that_takes_nothing_in(path: str) -> None:
    seen = threading.Event()

    def wait(_: socket.socket) -> None:
        seen.wait(PATIENCE)

    with peer(path, wait):
        assert failure(path, timeout=SHORT).reason is UnaryReason.TIMEOUT
        seen.set()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open(path: str) -> None:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "no")
        raise AssertionError

    failure(path)
    before = open_descriptors()
    for _ in range(20):
        failure(path)
    wait_until(lambda: open_descriptors() <= before)
    with served(path, refuse):
        failure(path)
        during = open_descriptors()
        for _ in range(20):
            failure(path)
        wait_until(lambda: open_descriptors() <= during + 5)  # the server closes its side when it gets to it


def test_h2_is_loaded_with_the_first_call_only() -> None:
    program = "import sys, accelscope.attribution.pod_resources; sys.exit('h2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_a_frame_is_refused_by_the_size_that_it_announces(path: str) -> None:
    """Not once all of it has come: garbage announces megabytes."""

    def behave(connection: socket.socket) -> None:
        settings = frame(4, b"")
        connection.sendall(settings + (1 << 20).to_bytes(3) + b"\0\0")
        connection.sendall(b"\0\0\0\0" + b"x" * 1000)
        drain(connection)

    with peer(path, behave):
        assert failure(path).reason is UnaryReason.BAD_ANSWER
