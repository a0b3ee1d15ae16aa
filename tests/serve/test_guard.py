"""Somebody is asked about a request, in another thread perhaps; the handler runs in the server's anyway."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.certificates import make_certificates

from accelscope.serve import Continuation, DeferredResponse, Request, Response, Route, Server, Tls, TokenFile

if TYPE_CHECKING:
    from tests.serve.conftest import Client

    Serve = Callable[..., Server]
    Connect = Callable[..., Client]

REFUSAL = Response.text(403, "not you")


class Doorman:
    """Lets in whose query says yes; the query `later` makes another thread say it."""

    def __init__(self) -> None:
        self.asked = 0

    def admit(self, request: Request, proceed: Continuation) -> Response | DeferredResponse:
        self.asked += 1
        admitted = "yes" in request.query
        if "later" not in request.query:
            return proceed() if admitted else REFUSAL
        deferred = DeferredResponse()
        threading.Timer(0.02, lambda: deferred.complete(proceed if admitted else REFUSAL)).start()
        return deferred


@pytest.fixture
def doorman() -> Doorman:
    return Doorman()


@pytest.mark.parametrize(
    ("query", "status"), [("yes", 200), ("no", 403), ("yes-later", 200), ("no-later", 403), ("", 403)]
)
def test_the_guard_decides(
    serve: "Serve", connect: "Connect", doorman: Doorman, query: str, status: int
) -> None:
    threads: list[str] = []

    def page(_: Request) -> Response:
        threads.append(threading.current_thread().name)
        return Response.text(200, "page")

    client = connect(serve({"/metrics": page}, guard=doorman))
    assert [client.get(f"/metrics?{query}").status for _ in range(2)] == [status] * 2
    assert threads == (["http", "http"] if status == 200 else [])


def test_open_routes_and_what_is_no_page_ask_nobody(
    serve: "Serve", connect: "Connect", doorman: Doorman
) -> None:
    client = connect(serve(guard=doorman))
    assert client.get("/healthz").status == 200
    assert client.get("/nothing").status == 404
    assert client.get("/metrics?yes", method="PUT").status == 405
    assert doorman.asked == 0


def test_an_answer_may_be_waited_for_twice(serve: "Serve", connect: "Connect", doorman: Doorman) -> None:
    def page(_: Request) -> DeferredResponse:
        deferred = DeferredResponse()
        threading.Timer(0.02, lambda: deferred.complete(Response.text(200, "page"))).start()
        return deferred

    client = connect(serve({"/metrics": page}, guard=doorman))
    assert client.get("/metrics?yes-later").body == b"page\n"
    assert client.get("/metrics?yes").body == b"page\n"


def test_a_page_that_fails_after_the_wait_is_500(
    serve: "Serve", connect: "Connect", doorman: Doorman
) -> None:
    def page(_: Request) -> Response:
        raise ZeroDivisionError

    client = connect(serve({"/metrics": Route(page)}, guard=doorman))
    assert client.get("/metrics?yes-later").status == 500
    assert client.get("/metrics?no-later").status == 403


def test_a_token_of_the_file_needs_no_guard(
    serve: "Serve", connect: "Connect", doorman: Doorman, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret")
    client = connect(serve(guard=doorman, auth=TokenFile(tmp_path / "token")))
    assert client.get("/metrics?no", "Authorization: Bearer secret").status == 200
    assert doorman.asked == 0
    assert client.get("/metrics?no", "Authorization: Bearer other").status == 403
    assert client.get("/metrics?yes").status == 200


def test_without_a_client_certificate_nobody_is_asked(
    serve: "Serve", connect: "Connect", doorman: Doorman, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    server = serve(tls=Tls(str(made.server), str(made.server_key), str(made.ca)), guard=doorman)

    def client(*, certified: bool) -> "Client":
        client = connect(server)
        context = made.trust(with_client=certified)
        client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
        return client

    assert client(certified=False).get("/metrics?yes").status == 403
    assert doorman.asked == 0
    assert client(certified=True).get("/metrics?no").status == 403
    assert client(certified=True).get("/metrics?yes").status == 200
    assert doorman.asked == 2
