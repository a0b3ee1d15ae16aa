"""A server that answers as a test tells it to, over TLS or plain, each connection in a thread of its own."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from tests.waiting import PATIENCE_SECONDS, wait_until


@dataclass(frozen=True)
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"


class Peer:
    """The connection of one request, from the server's side."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self.sock = sock
        self.ended = False
        self._stopping = stopping

    def send(self, content: bytes) -> None:
        self.sock.sendall(content)

    def answer(self, status: int, body: bytes, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers, "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def document(self, status: int, document: object, *headers: str) -> None:
        self.answer(status, json.dumps(document).encode(), "Content-Type: application/json", *headers)

    def begin_chunked(self) -> None:
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, content: bytes) -> None:
        self.send(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def end_chunked(self) -> None:
        self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """End the connection at once, without a word, and do not hear what was sent meanwhile."""
        self.ended = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def hang(self) -> None:
        """Say nothing until the other side goes away."""
        self.sock.settimeout(0.05)
        while not self._stopping.is_set():
            try:
                if not self.sock.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return


Step = Callable[[Peer, Asked], None]


class KubeServer:
    """Each request takes the next step; after the last one, requests are left hanging."""

    def __init__(
        self, *steps: Step, certificate: tuple[str, str] | None = None, client_ca: str | None = None
    ) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self._steps = list(steps)
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
            if client_ca is not None:
                self._context.verify_mode = ssl.CERT_REQUIRED
                self._context.load_verify_locations(client_ca)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def then(self, *steps: Step) -> None:
        with self._lock:
            self._steps.extend(steps)

    def close(self) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(sock.close)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                stack.callback(sock.close)
            for asked in self._requests(sock):
                with self._lock:
                    self.asked.append(asked)
                    step = self._steps.pop(0) if self._steps else hang
                peer = Peer(sock, self._stopping)
                step(peer, asked)
                if peer.ended:
                    return
                sock.settimeout(PATIENCE_SECONDS)

    def _requests(self, sock: socket.socket) -> Iterator[Asked]:
        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                sock.settimeout(0.05)
                try:
                    more = sock.recv(65536)
                except TimeoutError:
                    if self._stopping.is_set():
                        return
                    continue
                if not more:
                    return
                received += more
            head, _, received = received.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
            size = int(headers.get("content-length", "0"))
            sock.settimeout(PATIENCE_SECONDS)
            while len(received) < size:
                received += sock.recv(65536)
            body, received = received[:size], received[size:]
            yield Asked(method, target, headers, body)


def hang(peer: Peer, _: Asked) -> None:
    peer.hang()


def refuse(status: int, message: str = "no", *headers: str) -> Step:
    """A Status object, as the API server answers."""

    def step(peer: Peer, _: Asked) -> None:
        peer.document(status, {"kind": "Status", "code": status, "message": message}, *headers)

    return step


def raw(content: bytes, *, cut: bool = True) -> Step:
    def step(peer: Peer, _: Asked) -> None:
        peer.send(content)
        if cut:
            peer.cut()

    return step


def listed(version: str, *items: object, piece_bytes: int = 1000) -> Step:
    """A list in chunks, its metadata first as the API server has it."""

    def step(peer: Peer, _: Asked) -> None:
        document = {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": version},
            "items": list(items),
        }
        content = json.dumps(document).encode()
        peer.begin_chunked()
        for start in range(0, len(content), piece_bytes):
            peer.chunk(content[start : start + piece_bytes])
        peer.end_chunked()

    return step


def watched(*events: object, then: str = "hang", after: Callable[[], object] | None = None) -> Step:
    """Events one by one; then the stream hangs, ends as it should, is cut, or is cut in the middle of a line.
    Before its end comes, `after` must be true."""

    def step(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        for event in events:
            line = json.dumps(event).encode() + b"\n"
            peer.chunk(line[:7])  # a line need not come whole
            peer.chunk(line[7:])
        if after is not None:
            wait_until(after, "it is time to end the watch")
        if then == "hang":
            peer.hang()
        elif then == "end":
            peer.end_chunked()
        elif then == "cut":
            peer.cut()
        else:
            peer.chunk(b'{"type":"ADDED","object":{"metadata":{"uid":"half')
            peer.cut()

    return step


def pod(name: str, version: str = "1", **fields: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": version}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
        **fields,
    }


def event(kind: str, document: object) -> dict[str, object]:
    return {"type": kind, "object": document}


def bookmark(version: str) -> dict[str, object]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})
