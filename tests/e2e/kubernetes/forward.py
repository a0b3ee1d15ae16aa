"""Ports of this machine that lead into the node's network."""

import contextlib
import ctypes
import functools
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

Address = tuple[str, int]

_CLONE_NEWNET = 0x40000000
_CONNECT_SECONDS = 10.0
_PIECE_BYTES = 64 << 10

_libc = ctypes.CDLL(None, use_errno=True)


def connect_in(namespace: Path, address: Address) -> socket.socket:
    """A connection made in another network namespace. A socket stays in the one it was made in, and the
    calling thread stays where it went: it must be one of its own."""
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace))
    finally:
        os.close(descriptor)
    return socket.create_connection(address, timeout=_CONNECT_SECONDS)


class Forward:
    """Listens at 127.0.0.1:<port>. The target is asked for anew at each connection, so that it may move or be
    away for a while (an OSError): then the connection is closed at once."""

    def __init__(self, namespace: Path, target: Callable[[], Address]) -> None:
        self._namespace = namespace
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections too."""
        with self._lock:
            self._closed = True
            for each in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        for each in (self._listener, *self._open):
            each.close()

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, daemon=True, name=f"forward-{self.port}")
        with self._lock:
            if self._closed:
                return
            self._threads.add(thread)
            thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with self._lock:
                if self._closed:
                    client.close()
                    return
                self._open.add(client)
            self._start(functools.partial(self._serve, client))

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            server = connect_in(self._namespace, self._target())
            server.settimeout(None)
            with self._lock:
                if self._closed:
                    return
                self._open.add(server)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()
        except OSError:
            pass  # nobody listens there now; the client sees its connection end
        finally:
            with self._lock:
                for each in filter(None, (client, server)):
                    self._open.discard(each)
                    each.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends, which is then passed on: the other direction may go on for long."""
    try:
        while piece := source.recv(_PIECE_BYTES):
            sink.sendall(piece)
    except OSError:
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
