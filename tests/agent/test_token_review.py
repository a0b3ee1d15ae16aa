"""Pages for those whom the API server vouches for: real HTTP on both sides, a clock that is moved by hand."""

import gc
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.kube.kube_server import Asked, KubeServer, Peer, Step, hang, raw, refuse
from tests.kube.reviews import Reviews
from tests.serve.conftest import Answer, Client
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent import token_review
from accelscope.agent.token_review import ApiServerReviewer, ReviewLimits, TokenReviewGuard
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.token_review import ACCESS_REVIEWS, TOKEN_LIMIT, TOKEN_REVIEWS
from accelscope.serve import Handler, Response, Route, Server, TokenFile

ROUTES: dict[str, Handler | Route] = {
    "/metrics": lambda _: Response.text(200, "page"),
    "/snapshot": lambda _: Response.text(200, "snapshot"),
    "/healthz": Route(lambda _: Response.text(200, "ok"), guarded=False),
}
OWN_TOKEN = "own-service-account-token"
# Ann may read the page, Bob may read nothing.
ANN, BOB, STRANGER = "ann.token.abcdefgh", "bob.token.abcdefgh", "stranger.token.abcdefgh"
# Where they ask from: all of 127.0.0.0/8 is this machine.
HOME, ELSEWHERE = "127.0.0.1", "127.0.0.2"
UNLIMITED = ReviewLimits(
    waiting=1000, waiting_of_peer=1000, per_second=1e6, burst=1000, peer_per_second=1e6, peer_burst=1000
)


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


class ApiServer:
    """An API server that reviews tokens and permissions, with faults."""

    def __init__(self) -> None:
        self.reviews = Reviews({ANN: "ann", BOB: "bob"}, {"ann": {"/metrics"}, "bob": set()})
        self.trouble: Step | None = None
        self.accepts = OWN_TOKEN
        self.server = KubeServer(*[self._answer] * 2000)

    @property
    def asked(self) -> list[str]:
        return [asked.path for asked in self.server.asked]

    @property
    def reviewed(self) -> int:
        return self.asked.count(TOKEN_REVIEWS)

    def hold(self, *, strangers_only: bool = False) -> Callable[[], None]:
        """Hold back all responses, or those about unknown tokens, until the returned function is called."""
        released = threading.Event()

        def held(peer: Peer, asked: Asked) -> None:
            known = (
                asked.path == ACCESS_REVIEWS or json.loads(asked.body)["spec"]["token"] in self.reviews.users
            )
            if not (strangers_only and known):
                assert released.wait(PATIENCE_SECONDS)
            self._review(peer, asked)

        self.trouble = held
        return released.set

    def _answer(self, peer: Peer, asked: Asked) -> None:
        if self.trouble is not None:
            self.trouble(peer, asked)
        else:
            self._review(peer, asked)

    def _review(self, peer: Peer, asked: Asked) -> None:
        if asked.headers.get("authorization") != f"Bearer {self.accepts}":
            refuse(401, "Unauthorized")(peer, asked)
            return
        peer.document(201, self.reviews.answer(asked.path, asked.body))


class Lab:
    def __init__(self, folder: Path) -> None:
        self.stack = ExitStack()
        self.now = 1000.0
        self.own_token = folder / "own-token"
        self.own_token.write_text(OWN_TOKEN)
        self.api = ApiServer()
        self.stack.callback(self.api.server.close)

    def serve(
        self,
        *,
        auth: TokenFile | None = None,
        limits: ReviewLimits | None = None,
    ) -> Server:
        endpoint = Endpoint(self.api.server.url, str(self.own_token))
        reviewer = ApiServerReviewer(endpoint, review_seconds=20.0)
        self.guard = TokenReviewGuard(reviewer, limits=limits, clock=lambda: self.now)
        self.server = Server(ROUTES, host="127.0.0.1", guard=self.guard, auth=auth)
        self.server.start()
        self.stack.callback(self.server.stop)
        self.guard.start()
        self.stack.callback(self.guard.stop, 10.0)
        return self.server

    def review_within(self, seconds: float) -> None:
        assert isinstance(self.guard._reviewer, ApiServerReviewer)
        self.guard._reviewer._review_seconds = seconds

    def connect(self, peer: str = HOME) -> Client:
        sock = socket.create_connection(self.server.address[:2], timeout=20, source_address=(peer, 0))
        self.stack.callback(sock.close)
        return Client(sock)

    def get(self, token: str, path: str = "/metrics", *, peer: str = HOME) -> Answer:
        return self.connect(peer).get(path, bearer(token))

    def ask(self, token: str, peer: str = HOME) -> Client:
        """Without waiting for the answer."""
        request = f"GET /metrics HTTP/1.1\r\nHost: x\r\n{bearer(token)}\r\n\r\n"
        return self.connect(peer).send(request.encode())

    def queue(self, token: str, peer: str = HOME) -> Client:
        """The same, and now it waits for its turn."""
        before = len(self.guard._unseen)
        client = self.ask(token, peer)
        wait_until(lambda: len(self.guard._unseen) == before + 1, "for it to wait")
        return client

    def status(self, token: str, path: str = "/metrics", *, peer: str = HOME) -> int:
        return self.get(token, path, peer=peer).status

    @property
    def counted(self) -> dict[str, int]:
        return {counted.reason: counted.count for counted in self.guard.reviews}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    with lab.stack:
        yield lab


@pytest.fixture
def guarded(lab: Lab) -> Lab:
    lab.serve()
    return lab


@pytest.mark.parametrize(
    ("fields", "status", "challenge"),
    [
        ([], 401, 'Bearer realm="accelscope"'),
        ([bearer(ANN)], 200, None),
        ([f"X-AccelScope-Token: {ANN}"], 200, None),
        ([f"authorization: bEARER   {ANN} "], 200, None),
        (["Authorization: Basic YTpi", f"X-AccelScope-Token: {ANN}"], 200, None),
        (["X-AccelScope-Token:", bearer(ANN)], 200, None),
        ([bearer(STRANGER)], 401, 'Bearer realm="accelscope", error="invalid_token"'),
        ([bearer(BOB)], 403, None),
    ],
)
def test_access_depends_on_the_token_and_its_permissions(
    guarded: Lab, fields: list[str], status: int, challenge: str | None
) -> None:
    answer = guarded.connect().get("/metrics", *fields)
    assert answer.status == status
    assert answer.headers.get("www-authenticate") == challenge
    assert b"abcdefgh" not in answer.body


def test_each_path_needs_its_own_permission(guarded: Lab) -> None:
    assert guarded.status(ANN) == 200
    assert guarded.status(ANN, "/snapshot") == 403
    assert guarded.status(ANN, "/metrics?x=/snapshot") == 200
    assert guarded.status(ANN, "//metrics") == 404
    assert guarded.connect().get("/metrics", bearer(ANN), method="HEAD").status == 200
    assert guarded.connect().get("/snapshot", bearer(ANN), method="HEAD").status == 403


def test_probes_and_unknown_paths_need_no_review(guarded: Lab) -> None:
    assert guarded.connect().get("/healthz").status == 200
    assert guarded.status(STRANGER, "/nothing") == 404
    assert guarded.connect().get("/metrics", method="POST").status == 405
    assert guarded.api.asked == []


@pytest.mark.parametrize(
    "fields",
    [
        # Two headers of one name are one value, and that is no token; neither half is tried.
        [bearer(ANN), bearer(ANN)],
        [bearer(ANN), bearer(STRANGER)],
        [f"X-AccelScope-Token: {ANN}", f"X-AccelScope-Token: {ANN}"],
        ["Authorization: Basic x", bearer(ANN)],
        [bearer(f"{ANN}, x")],
        [bearer(f"{ANN} x")],
        [bearer(f"{ANN}\t{ANN}")],
        [bearer(f'{ANN}"}}')],
        [bearer("=")],
        [bearer("\xe4nn")],
        ["Authorization: Bearer"],
        [f"Authorization: {ANN}"],
        [f"X-AccelScope-Token: Bearer {ANN}"],
        [f"X_AccelScope_Token: {ANN}"],
        [f"X-Remote-User: ann\r\nX-Forwarded-Authorization: {bearer(ANN)}"],
    ],
)
def test_an_invalid_token_is_rejected_without_a_review(guarded: Lab, fields: list[str]) -> None:
    assert guarded.connect().get("/metrics", *fields).status == 401
    assert guarded.api.asked == []


@pytest.mark.parametrize(
    "fields",
    [
        [f"Authorization : Bearer {ANN}"],
        [f"X: y\r\n {bearer(ANN)}"],
        [f"X: y\x00{ANN}"],
        [f"X: y\r{bearer(ANN)}"],
    ],
)
def test_ambiguous_headers_are_rejected(guarded: Lab, fields: list[str]) -> None:
    assert guarded.connect().get("/metrics", *fields).status == 400
    assert guarded.api.asked == []


def test_the_token_in_our_own_header_takes_precedence(guarded: Lab) -> None:
    assert guarded.connect().get("/metrics", bearer(STRANGER), f"X-AccelScope-Token: {ANN}").status == 200
    assert guarded.connect().get("/metrics", bearer(ANN), f"X-AccelScope-Token: {STRANGER}").status == 401
    assert guarded.api.reviewed == 2


def test_each_request_of_a_connection_needs_a_token(guarded: Lab) -> None:
    client = guarded.connect()
    first = f"GET /metrics HTTP/1.1\r\nHost: x\r\n{bearer(ANN)}\r\n\r\n".encode()
    client.send(first + b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [client.answer().status, client.answer().status] == [200, 401]


def test_an_oversized_token_is_rejected_without_a_review(guarded: Lab) -> None:
    assert guarded.status("x" * (TOKEN_LIMIT + 1)) == 401
    assert guarded.api.asked == []
    assert guarded.status("x" * TOKEN_LIMIT) == 401
    assert guarded.api.reviewed == 1


@pytest.mark.parametrize(
    ("token", "status", "seconds"), [(ANN, 200, 60), (BOB, 403, 10), (STRANGER, 401, 10)]
)
def test_a_verdict_is_cached(guarded: Lab, token: str, status: int, seconds: float) -> None:
    assert [guarded.status(token) for _ in range(3)] == [status] * 3
    guarded.now += seconds - 0.1
    assert guarded.status(token) == status
    assert guarded.api.reviewed == 1
    guarded.now += 0.2
    assert guarded.status(token) == status
    assert guarded.api.reviewed == 2


def test_changed_permissions_apply_from_the_next_review(guarded: Lab) -> None:
    assert (guarded.status(ANN), guarded.status(BOB)) == (200, 403)
    guarded.api.reviews.rights = {"ann": set(), "bob": {"/metrics"}}
    guarded.now += 61
    assert (guarded.status(ANN), guarded.status(BOB)) == (403, 200)
    guarded.api.reviews.users.clear()
    guarded.now += 61
    assert (guarded.status(ANN), guarded.status(BOB)) == (401, 401)


def test_fifty_requests_with_one_token_share_one_review(guarded: Lab) -> None:
    release = guarded.api.hold()
    clients = [guarded.ask(ANN) for _ in range(50)]
    wait_until(lambda: [len(r.waiting) for r in guarded.guard._pending.values()] == [50], "for all to wait")
    release()
    assert [client.answer().status for client in clients] == [200] * 50
    assert guarded.api.asked == [TOKEN_REVIEWS, ACCESS_REVIEWS]


def test_a_slow_api_server_does_not_delay_other_requests(guarded: Lab) -> None:
    assert guarded.status(ANN) == 200
    release = guarded.api.hold()
    waiting = guarded.ask(STRANGER)
    wait_until(lambda: guarded.api.reviewed == 2, "for the review to begin")
    assert guarded.connect().get("/healthz").status == 200
    assert guarded.status(ANN) == 200
    assert guarded.connect().get("/metrics").status == 401
    release()
    assert waiting.answer().status == 401


TROUBLES: dict[str, tuple[Step, str]] = {
    "hangs": (hang, "timeout"),
    "is cut off": (raw(b""), "unreachable"),
    "talks garbage": (raw(b"hello\r\n\r\n"), "bad_answer"),
    "answers something else": (lambda peer, _: peer.document(201, {"kind": "Status"}), "bad_answer"),
    "says yes in a way of its own": (
        lambda peer, _: peer.document(201, {"kind": "TokenReview", "status": {"authenticated": "true"}}),
        "bad_answer",
    ),
    "fails": (refuse(500), "server_error"),
    "throttles": (refuse(429, "later", "Retry-After: 7"), "throttled"),
    "refuses our token": (refuse(401), "unauthorized"),
    "lets us review nothing": (refuse(403, "cannot create resource tokenreviews"), "forbidden"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_without_the_api_server_only_known_tokens_are_accepted_for_a_while(
    lab: Lab, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lab.serve()
    assert (lab.status(ANN), lab.status(BOB)) == (200, 403)
    lab.api.trouble, reason = TROUBLES[trouble]
    if trouble == "hangs":
        lab.review_within(0.3)
    answer = lab.get(STRANGER)
    assert answer.status == 503
    assert answer.headers["retry-after"] == ("7" if trouble == "throttles" else "1")
    for age in (61, 120, 290):
        lab.now = 1000.0 + age
        assert (lab.status(ANN), lab.status(BOB), lab.status(STRANGER)) == (200, 503, 503)
    lab.now = 1000.0 + 301
    assert lab.status(ANN) == 503
    said = [record for record in caplog.records if record.name == "accelscope.agent.token_review"]
    assert [record.__dict__["fields"]["reason"] for record in said] == [reason]
    if trouble == "lets us review nothing":
        assert "right to create tokenreviews" in said[0].__dict__["fields"]["hint"]

    lab.api.trouble = None
    lab.review_within(PATIENCE_SECONDS)
    lab.now += 61
    assert (lab.status(ANN), lab.status(STRANGER)) == (200, 401)
    assert caplog.records[-1].getMessage() == "token reviews work again"


def test_an_unreachable_api_server_is_an_error(lab: Lab) -> None:
    lab.serve()
    assert lab.status(ANN) == 200
    lab.api.server.close()
    lab.now += 61
    assert (lab.status(ANN), lab.status(STRANGER)) == (200, 503)


def test_an_unreachable_api_server_is_not_called_for_every_request(lab: Lab) -> None:
    lab.serve()
    lab.api.trouble = refuse(500)
    assert [lab.status(f"token-{number}") for number in range(5)] == [503] * 5
    assert lab.api.reviewed == 1
    lab.now += 1.1
    assert lab.status(STRANGER) == 503
    assert lab.api.reviewed == 2


def test_a_known_token_is_accepted_if_only_its_own_review_fails(lab: Lab) -> None:
    lab.serve()
    lab.api.reviews.users["anns.other.token"] = "ann"
    assert (lab.status(ANN), lab.status("anns.other.token")) == (200, 200)
    lab.now += 61
    lab.api.trouble = refuse(429, "later", "Retry-After: 30")
    assert lab.status(ANN) == 200
    lab.api.trouble = None
    assert lab.status("anns.other.token") == 200
    wait_until(lambda: lab.counted["allowed"] == 3, "for the other's review")
    assert lab.status(ANN) == 200  # it is asked about again after 30 s


def test_a_revoked_token_is_rejected_once_the_api_server_is_back(lab: Lab) -> None:
    lab.serve()
    assert lab.status(ANN) == 200
    lab.api.trouble = refuse(500)
    lab.now += 61
    assert lab.status(ANN) == 200
    del lab.api.reviews.users[ANN]
    lab.api.trouble = None
    lab.now += 2
    wait_until(lambda: lab.status(ANN) == 401, "for the review in the background")


def test_a_closed_connection_is_reopened(lab: Lab) -> None:
    lab.serve()
    assert lab.status(ANN) == 200
    cut = iter([True])

    def once(peer: Peer, asked: Asked) -> None:
        if next(cut, False):
            peer.cut()
            return
        lab.api.trouble = None
        lab.api._answer(peer, asked)

    lab.api.trouble = once
    assert lab.status(BOB) == 403


def test_a_rotated_token_of_the_agent_is_used(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.serve()
    assert lab.status(ANN) == 200
    lab.api.accepts = "rotated-token-of-ours"
    assert lab.status(BOB) == 503
    lab.own_token.write_text("rotated-token-of-ours")
    lab.now += 2
    assert lab.status(BOB) == 403
    assert OWN_TOKEN not in caplog.text
    assert "rotated" not in caplog.text


def test_verdicts_are_bounded_and_invented_tokens_do_not_evict_good_ones(lab: Lab) -> None:
    lab.serve(limits=UNLIMITED)
    assert lab.status(ANN) == 200
    lab.now += 55  # those that come now are fresher
    client = lab.connect()
    made_up = token_review.VERDICTS_LIMIT + 20
    for number in range(made_up):
        assert client.get("/metrics", bearer(f"made-up-{number}")).status == 401
    assert len(lab.guard._verdicts) == token_review.VERDICTS_LIMIT
    assert lab.status(ANN) == 200
    assert lab.api.reviewed == made_up + 1


def test_a_flood_of_tokens_neither_blocks_others_nor_reaches_the_api_server(
    guarded: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    assert guarded.status(ANN) == 200
    flooding = guarded.connect(ELSEWHERE)
    answers = []
    for number in range(300):
        answers.append(flooding.get("/metrics", bearer(f"made-up-{number}")))
        if number % 50 == 0:
            guarded.now += 20
            assert guarded.status(ANN) == 200  # also when it is time to review that one again
    assert {answer.status for answer in answers} == {401, 429}
    assert {answer.headers.get("retry-after") for answer in answers if answer.status == 429} == {"1"}
    burst = ReviewLimits().peer_burst
    denied = [answer.status for answer in answers].count(401)
    assert denied <= 7 * burst  # as the clock has moved six times
    assert guarded.api.reviewed <= denied + 3
    guarded.api.reviews.users["anns.new.token"] = "ann"
    assert guarded.status("anns.new.token") == 200
    assert guarded.counted == {
        "allowed": guarded.api.asked.count(ACCESS_REVIEWS),
        "denied": denied,
        "error": 0,
        "limited": 300 - denied,
    }
    said = [record for record in caplog.records if "are rejected" in record.getMessage()]
    assert [record.__dict__["fields"] for record in said] == [{"peer": ELSEWHERE}]


def test_renewals_do_not_wait_behind_unknown_tokens(guarded: Lab) -> None:
    assert guarded.status(ANN) == 200
    release = guarded.api.hold(strangers_only=True)
    under_way = guarded.ask("made-up", ELSEWHERE)
    wait_until(lambda: guarded.api.reviewed == 2, "for a review that gets no answer")
    for number in range(4):
        guarded.queue(f"made-up-{number}", ELSEWHERE)
    guarded.now += 61
    assert guarded.status(ANN) == 200
    assert guarded.api.reviewed == 3
    release()
    assert under_way.answer().status == 401


def test_addresses_take_turns(guarded: Lab) -> None:
    release = guarded.api.hold()
    flood = [guarded.ask("made-up", ELSEWHERE)]
    wait_until(lambda: guarded.api.reviewed == 1, "for the first review to begin")
    flood += [guarded.queue(f"made-up-{number}", ELSEWHERE) for number in range(5)]
    ann = guarded.queue(ANN)
    release()
    assert ann.answer().status == 200
    assert [client.answer().status for client in flood] == [401] * 6
    tokens = [json.loads(asked.body)["spec"].get("token") for asked in guarded.api.server.asked]
    assert tokens.index(ANN) <= 2


def test_the_queue_is_limited_per_address(guarded: Lab) -> None:
    release = guarded.api.hold()
    under_way = guarded.ask("made-up")
    wait_until(lambda: guarded.api.reviewed == 1, "for the first review to begin")
    guarded.now += 3
    limit = ReviewLimits().waiting_of_peer
    waiting = [guarded.queue(f"made-up-{number}") for number in range(limit)]
    answer = guarded.get("one-too-many")
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    release()
    assert [client.answer().status for client in (under_way, *waiting)] == [401] * (limit + 1)


def test_many_addresses_leave_room_for_another_one(lab: Lab) -> None:
    lab.serve(limits=ReviewLimits(waiting=4))
    release = lab.api.hold()
    lab.ask("made-up", "127.0.1.0")
    wait_until(lambda: lab.api.reviewed == 1, "for the first review to begin")
    crowd = [lab.queue(f"made-up-{number}", f"127.0.1.{number // 2}") for number in range(4)]
    assert lab.status("one-more", peer="127.0.1.1") == 503  # this address has an item in the queue
    ann = lab.ask(ANN)
    assert crowd[1].answer().status == 503
    lab.ask("another", "127.0.2.1")
    assert crowd[3].answer().status == 503
    answer = lab.get("too-many", peer="127.0.2.2")  # all have one
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    release()
    assert ann.answer().status == 200
    assert lab.counted["limited"] == 4


def test_reviews_of_unknown_tokens_are_rate_limited(lab: Lab) -> None:
    lab.serve(limits=ReviewLimits(per_second=2.0, burst=3))
    assert [lab.status(f"at-once-{number}", peer=f"127.0.1.{number}") for number in range(3)] == [401] * 3
    waiting = [lab.queue(f"later-{number}", f"127.0.2.{number}") for number in range(3)]
    assert lab.api.reviewed == 3
    lab.now += 1.1
    assert [client.answer().status for client in waiting[:2]] == [401] * 2
    assert lab.api.reviewed == 5
    lab.now += 5
    assert waiting[2].answer().status == 503  # its turn came too late
    assert lab.api.reviewed == 5


def test_a_review_that_waited_too_long_is_skipped(guarded: Lab) -> None:
    release = guarded.api.hold()
    clients = [guarded.ask(token) for token in (ANN, STRANGER)]
    wait_until(lambda: len(guarded.guard._pending) == 2 and guarded.api.reviewed == 1, "for one to wait")
    guarded.now += 6
    release()
    assert sorted(client.answer().status for client in clients) in ([200, 503], [401, 503])
    assert guarded.api.reviewed == 1
    assert guarded.counted["limited"] == 1


def test_either_token_is_enough_and_that_of_the_file_needs_no_review(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("from-the-file\n")
    lab.serve(auth=TokenFile(tmp_path / "tokens"))
    assert lab.status("from-the-file") == 200
    assert lab.connect().get("/metrics", bearer(STRANGER), "X-AccelScope-Token: from-the-file").status == 200
    assert lab.api.asked == []
    assert (lab.status(ANN), lab.status(BOB), lab.status(STRANGER)) == (200, 403, 401)
    assert lab.connect().get("/metrics").status == 401


def test_tokens_are_not_kept_and_not_logged(
    lab: Lab, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    lab.serve()
    secret = "-".join(("made", "of", "parts", "abcdefgh"))

    def repeats(peer: Peer, asked: Asked) -> None:
        refuse(500, f"cannot look at {json.loads(asked.body)['spec']['token']}")(peer, asked)

    lab.api.trouble = repeats
    answer = lab.get(secret)
    assert answer.status == 503
    told = repr(answer) + caplog.text + "".join(str(r.__dict__) for r in caplog.records)
    assert "abcdefgh" not in told + "".join(capfd.readouterr())
    lab.api.trouble = None
    lab.now += 2
    assert lab.status(secret) == 401

    def forgotten() -> bool:
        gc.collect()
        return not any(isinstance(found, token_review._Review) for found in gc.get_objects())

    wait_until(forgotten, "for the thread that reviewed it to let go of it")
    assert all(secret.encode() not in key for key in lab.guard._verdicts._entries)


def test_an_unexpected_error_affects_one_request(
    guarded: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(guarded.guard._reviewer, "review", broken)
        assert guarded.status(ANN) == 503
    assert "unexpected error during a token review" in caplog.text
    guarded.now += 2
    assert guarded.status(ANN) == 200


def test_a_handler_runs_in_the_servers_thread_also_after_a_review(lab: Lab) -> None:
    lab.serve()
    lab.server.stop()
    threads: list[str] = []

    def page(_: object) -> Response:
        threads.append(threading.current_thread().name)
        return Response.text(200, "page")

    lab.server = Server({"/metrics": page}, host="127.0.0.1", guard=lab.guard)
    lab.server.start()
    lab.stack.callback(lab.server.stop)
    assert (lab.status(ANN), lab.status(ANN)) == (200, 200)
    assert threads == ["http", "http"]


class TestTheAgent:
    def test_pages_need_a_token_and_probes_do_not(self, lab: Lab, tmp_path: Path) -> None:
        settings = {
            "tokenReview": True,
            "kubeApiUrl": lab.api.server.url,
            "kubeTokenFile": str(lab.own_token),
            "kubeInsecureSkipTlsVerify": True,
            "podSource": "off",
            "podResourcesSocket": "",
        }
        (tmp_path / "agent.yaml").write_text(json.dumps(settings))
        lab.api.reviews.rights["ann"].add("/")
        with AgentProcess({"config_file": str(tmp_path / "agent.yaml")}, tmp_path / "agent") as agent:

            def status(path: str, token: str) -> int:
                return agent.get(path, authorization=f"Bearer {token}").status

            assert agent.get("/metrics").status == 401
            assert [status(path, ANN) for path in ("/metrics", "/", "/snapshot")] == [200, 200, 403]
            assert status("/metrics", STRANGER) == 401
            assert agent.get("/healthz").status == 200
            assert agent.log().count("TLS verification of the API server is off") == 1
            assert "of the kubelet is off" not in agent.log()

            def page() -> list[str]:
                return agent.get("/metrics", authorization=f"Bearer {ANN}").body.decode().splitlines()

            counted = {"allowed": 2, "denied": 2, "error": 0, "limited": 0}
            shown = {f'accelscope_token_reviews_total{{result="{r}"}} {n}' for r, n in counted.items()}
            wait_until(lambda: shown <= set(page()), "for the next collection")
            assert "unencrypted" in agent.log()
            assert "anybody" not in agent.log()
            assert "abcdefgh" not in agent.log()

    def test_the_agent_does_not_start_without_an_api_server(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
        ended = subprocess.run(
            [sys.executable, "-m", "accelscope", "agent", "--token-review"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ended.returncode == 2
        assert ended.stderr.splitlines() == [
            "accelscope agent: --token-review: not in a Kubernetes cluster; set --kube-api-url"
        ]
