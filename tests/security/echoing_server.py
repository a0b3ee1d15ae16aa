"""A server that refuses everybody and repeats what they showed it, as badly written gateways do."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.certificates import Certificates


class EchoingServer:
    """`status` may be changed while it serves; 0: what comes is no HTTP."""

    def __init__(self) -> None:
        self.status = 401
        self.url = ""
        self.asked = 0
        self.methods: set[str] = set()  # of those that asked

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[str, bytes]:
        shown = [headers.get(name, "").rpartition(" ")[2] for name in ("Authorization", "X-AccelScope-Token")]
        told = f"not one of ours: {' '.join(shown)} {body.decode(errors='replace')} {headers}"
        document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": told}
        return "application/json", json.dumps(document).encode()


@contextmanager
def echoing_server(certificates: Certificates | None = None) -> Iterator[EchoingServer]:
    echo = EchoingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._repeat()

        def do_POST(self) -> None:
            self._repeat()

        def do_PATCH(self) -> None:
            self._repeat()

        def _repeat(self) -> None:
            echo.asked += 1
            echo.methods.add(self.command)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if echo.status == 0:
                self.wfile.write(f"{self.headers}{body!r}\r\n\r\n".encode())
                self.close_connection = True
                return
            kind, content = echo.answer(dict(self.headers), body)
            self.send_response(echo.status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Location", f"https://elsewhere.test/{self.headers.get('Authorization', '')}")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.server, certificates.server_key)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        echo.url = f"http{'s' if certificates else ''}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield echo
        finally:
            server.shutdown()
            thread.join()
