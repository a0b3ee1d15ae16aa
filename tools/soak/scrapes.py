"""Those who scrape: `python -m tools.soak.scrapes PORT CERTIFICATES`, a process of its own.

Each line of its standard input is a number of scrapes to make, and is answered with a line when they are
made; a few that read slowly may still be at it. At its end, what came of all is printed as JSON.
"""

import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from bench.scraper import ScrapeFailed, Scraper

MADE = "made"

_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n"
_SLOW_AT_A_TIME = 3
_SLOW_BYTES, _SLOW_SECONDS = 16 << 10, 0.02  # so much, then so long a pause
# Of a hundred.
_KINDS = ["kept", "kept", "kept", "new", "kept plain"] * 18 + ["slow", "aborted"] * 5


class Scrapes:
    def __init__(self, port: int, certificates: str) -> None:
        self._port = port
        self._trust = ssl.create_default_context(cafile=certificates)
        self._kept = {False: self._scraper(compressed=False), True: self._scraper(compressed=True)}
        self._open: set[bool] = set()
        self._slow = threading.BoundedSemaphore(_SLOW_AT_A_TIME)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def make(self, count: int) -> None:
        kinds: dict[str, Callable[[], None]] = {
            "kept": lambda: self._on_kept(compressed=True),
            "kept plain": lambda: self._on_kept(compressed=False),
            "new": self._on_new,
            "aborted": self._aborted,
            "slow": self._begin_slow,
        }
        for number in range(count):
            kind = _KINDS[number % len(_KINDS)]
            self._tried(kind, kinds[kind])

    def finish(self) -> None:
        for scraper in self._kept.values():
            scraper.__exit__(None, None, None)
        for thread in self._threads:
            thread.join(60)

    def _tried(self, kind: str, scrape: Callable[[], None]) -> None:
        try:
            scrape()
        except (OSError, ScrapeFailed) as error:
            with self._lock:
                self.counts["failed"] += 1
                if len(self.failures) < 10:
                    self.failures.append(f"{kind}: {error!r}")
        else:
            if kind != "slow":  # that one has only begun, and counts when it was read
                with self._lock:
                    self.counts[kind] += 1

    def _scraper(self, *, compressed: bool) -> Scraper:
        return Scraper(self._port, tls=self._trust, compressed=compressed)

    def _on_kept(self, *, compressed: bool) -> None:
        scraper = self._kept[compressed]
        if compressed in self._open:
            try:
                scraper.scrape()
            except (OSError, ScrapeFailed):  # a server may close what is kept: a client connects anew
                with self._lock:
                    self.counts["reconnected"] += 1
                scraper.__exit__(None, None, None)
                self._open.discard(compressed)
            else:
                return
        scraper.__enter__()
        self._open.add(compressed)
        scraper.scrape()

    def _on_new(self) -> None:
        self._scraper(compressed=True).scrape()

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        return self._trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def _aborted(self) -> None:
        """Leaves with a reset, in the middle of the answer."""
        connection = self._connect()
        connection.sendall(_REQUEST)
        connection.recv(100)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def _begin_slow(self) -> None:
        self._slow.acquire()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=self._tried, args=("read slowly", self._read_slowly)))
        self._threads[-1].start()

    def _read_slowly(self) -> None:
        try:
            with self._connect() as connection:
                connection.sendall(_REQUEST)
                received = connection.recv(_SLOW_BYTES)
                if b" 200 " not in received[:20]:
                    raise ScrapeFailed(repr(received[:60]))
                head, _, body = received.partition(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                missing = length - len(body)
                while missing > 0:
                    time.sleep(_SLOW_SECONDS)
                    chunk = connection.recv(min(_SLOW_BYTES, missing))
                    if not chunk:
                        raise ScrapeFailed("the answer ended early")
                    missing -= len(chunk)
        finally:
            self._slow.release()


def main() -> None:
    port, certificates = sys.argv[1:]
    scrapes = Scrapes(int(port), certificates)
    for line in sys.stdin:
        scrapes.make(int(line))
        print(MADE, flush=True)
    scrapes.finish()
    print(json.dumps({"counts": scrapes.counts, "failures": scrapes.failures}))


if __name__ == "__main__":
    main()
