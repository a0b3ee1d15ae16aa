"""Callers whose tokens a cluster reviews."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fleet.loop import run
from tests.fleet.store.nodes import Clock
from tests.kube.reviews import Reviews

from accelscope.fleet.api.access import AccessControl, AccessScope, Caller, TokenReviewClient
from accelscope.fleet.api.problem import Problem
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.token_review import CANNOT_REVIEW, TOKEN_REVIEWS
from accelscope.rate_limit import Rate

READ, ADMIN = "/accelscope/fleet/read", "/accelscope/fleet/admin"


@dataclass(frozen=True)
class Answer:
    body: bytes


@dataclass
class Cluster:
    """The reviews of an API server: users by token, and the paths that each may get."""

    users: dict[str, str] = field(default_factory=lambda: {"t-ann": "ann", "t-bob": "bob", "t-eve": "eve"})
    rights: dict[str, set[str]] = field(
        default_factory=lambda: {"ann": {READ}, "bob": {READ, ADMIN}, "eve": {"/api", "/api/*"}}
    )
    requested: list[str] = field(default_factory=list)
    away: KubeError | None = None
    garbage: bytes | None = None

    async def post(
        self, path: str, body: bytes, *, limit_bytes: int, timeout_seconds: float | None = None
    ) -> Answer:
        await asyncio.sleep(0)
        if self.away is not None:
            raise self.away
        if self.garbage is not None:
            return Answer(self.garbage)
        if path == TOKEN_REVIEWS:
            self.requested.append(json.loads(body)["spec"]["token"])
        return Answer(json.dumps(Reviews(self.users, self.rights).answer(path, body)).encode())


async def test_rights_of_a_user_become_scopes() -> None:
    reviews = TokenReviewClient(Cluster())
    ann, bob, eve = [await reviews.caller(token) for token in ("t-ann", "t-bob", "t-eve")]
    assert ann == Caller(name="ann", scopes=frozenset({AccessScope.READ}))
    assert bob == Caller(name="bob", scopes=frozenset({AccessScope.READ, AccessScope.ADMIN}))
    assert eve is not None
    assert not eve.scopes  # what every user of the API server may get grants no rights here
    assert await reviews.caller("t-nobody") is None
    assert await reviews.caller("no token\n") is None


async def test_a_verdict_is_cached() -> None:
    cluster, clock = Cluster(), Clock()
    reviews = TokenReviewClient(cluster, clock=clock)
    for _ in range(3):
        assert await reviews.caller("t-ann") is not None
    assert cluster.requested == ["t-ann"]
    clock.now += 61
    del cluster.users["t-ann"]
    assert await reviews.caller("t-ann") is None
    assert len(cluster.requested) == 2


async def test_concurrent_requests_with_one_token_share_a_review() -> None:
    cluster = Cluster()
    reviews = TokenReviewClient(cluster)
    callers = await asyncio.gather(*(reviews.caller("t-bob") for _ in range(20)))
    assert all(caller is not None for caller in callers)
    assert cluster.requested == ["t-bob"]


async def test_a_cancelled_request_does_not_stop_the_review() -> None:
    reviews = TokenReviewClient(Cluster())
    leaving = asyncio.ensure_future(reviews.caller("t-bob"))
    staying = asyncio.ensure_future(reviews.caller("t-bob"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying is not None


@pytest.mark.parametrize(
    "trouble",
    [{"away": KubeError(Reason.TIMEOUT, "no answer")}, {"garbage": b"<html>"}, {"garbage": b"{}"}],
)
async def test_only_cached_tokens_work_while_the_cluster_is_unreachable(trouble: dict[str, object]) -> None:
    cluster, clock = Cluster(), Clock()
    reviews = TokenReviewClient(cluster, clock=clock)
    assert await reviews.caller("t-ann") is not None
    assert await reviews.caller("t-eve") is not None
    for name, value in trouble.items():
        setattr(cluster, name, value)
    clock.now += 100
    assert await reviews.caller("t-ann") is not None
    for token in ("t-bob", "t-eve"):
        with pytest.raises(Problem) as raised:
            await reviews.caller(token)
        assert raised.value.kind.status == 503
        assert "Retry-After" in raised.value.headers
    clock.now += 300
    with pytest.raises(Problem):
        await reviews.caller("t-ann")
    cluster.away = cluster.garbage = None
    clock.now += 100
    assert await reviews.caller("t-ann") is not None


async def test_cached_tokens_do_not_wait_while_reviews_fail() -> None:
    cluster, clock = Cluster(), Clock()
    reviews = TokenReviewClient(cluster, clock=clock)
    assert await reviews.caller("t-ann") is not None
    cluster.away = KubeError(Reason.TIMEOUT, "no answer")
    clock.now += 100
    assert await reviews.caller("t-ann") is not None
    clock.now += 2
    never = asyncio.Event()

    async def post(*_: object, **__: object) -> Answer:
        await never.wait()
        raise AssertionError

    cluster.post = post  # type: ignore[method-assign]
    assert await asyncio.wait_for(reviews.caller("t-ann"), 20) is not None
    await reviews.close()


def test_the_log_names_the_missing_permission(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        cluster = Cluster(away=KubeError(Reason.FORBIDDEN, "the token t-ann is refused", status=403))
        reviews = TokenReviewClient(cluster, clock=Clock())
        for _ in range(2):
            with pytest.raises(Problem):
                await reviews.caller("t-ann")

    run(body())
    [record] = caplog.records
    assert record.getMessage() == CANNOT_REVIEW
    messages = record.__dict__["fields"]
    assert (messages["reason"], messages["status"]) == ("forbidden", 403)
    assert "create tokenreviews and subjectaccessreviews" in messages["hint"]
    assert "t-ann" not in str(messages)


def test_a_successful_review_ends_the_backoff() -> None:
    async def body() -> None:
        cluster = Cluster()
        reviews = TokenReviewClient(cluster, clock=Clock())
        slow = asyncio.Event()
        answered = cluster.post

        async def post(path: str, body: bytes, **options: Any) -> Answer:
            if b"t-bob" in body:
                raise KubeError(Reason.THROTTLED, "later", retry_after=60)
            if b"t-ann" in body:
                await slow.wait()
            return await answered(path, body, **options)

        cluster.post = post  # type: ignore[method-assign]
        under_way = asyncio.ensure_future(reviews.caller("t-ann"))
        with pytest.raises(Problem):
            await reviews.caller("t-bob")
        with pytest.raises(Problem):
            await reviews.caller("t-eve")
        slow.set()
        assert await under_way is not None
        assert await reviews.caller("t-eve") is not None

    run(body())


async def test_renewals_respect_retry_after() -> None:
    cluster, clock = Cluster(), Clock()
    reviews = TokenReviewClient(cluster, clock=clock)
    for token in ("t-ann", "t-bob"):
        assert await reviews.caller(token) is not None
    clock.now += 61
    requested = 0

    async def throttled(path: str, body: bytes, **options: Any) -> Answer:
        nonlocal requested
        requested += 1
        raise KubeError(Reason.THROTTLED, "later", retry_after=30)

    cluster.post = throttled  # type: ignore[method-assign]
    for token in ("t-ann", "t-bob"):
        assert await reviews.caller(token) is not None, "known still"
    await asyncio.sleep(0.01)  # a renewal in the background is sent after the response
    assert requested == 1


async def test_reviews_of_unknown_tokens_are_rate_limited() -> None:
    cluster = Cluster()
    reviews = TokenReviewClient(cluster, rate=Rate(per_second=0.1, burst=5), clock=Clock())
    refused = 0
    for number in range(20):
        try:
            assert await reviews.caller(f"made-up-{number}") is None
        except Problem as problem:
            refused += problem.kind.status == 503
    assert (len(cluster.requested), refused) == (5, 15)


async def test_known_tokens_are_renewed_despite_many_unknown_ones() -> None:
    cluster, clock = Cluster(), Clock()
    reviews = TokenReviewClient(cluster, rate=Rate(per_second=0.001, burst=1), clock=clock)
    assert await reviews.caller("t-ann") is not None
    clock.now += 100
    with pytest.raises(Problem):
        await reviews.caller("made-up")
    assert await reviews.caller("t-ann") is not None
    assert cluster.requested == ["t-ann", "t-ann"]
    clock.now += 301  # no longer cached
    with pytest.raises(Problem):
        await reviews.caller("t-ann")


async def test_a_known_token_works_from_an_address_that_is_rate_limited() -> None:
    cluster, clock = Cluster(), Clock()
    access = AccessControl(
        reviews=TokenReviewClient(cluster, clock=clock),
        failed_logins=Rate(per_second=0.001, burst=2),
        clock=clock,
    )

    async def status(token: str) -> int:
        try:
            await access.admit({"Authorization": f"Bearer {token}"}, "192.0.2.1")
        except Problem as problem:
            return problem.kind.status
        return 200

    assert await status("t-ann") == 200
    assert [await status(token) for token in ("expired", "expired", "expired", "\udcff")] == [
        401,
        401,
        429,
        429,
    ]
    assert await status("t-ann") == 200
    clock.now += 100  # its verdict is no longer fresh
    assert await status("t-ann") == 200
    assert await status("t-bob") == 429  # never seen before
    del cluster.users["t-ann"]
    clock.now += 100
    assert [await status("t-ann"), await status("t-ann")] == [401, 429]


async def test_tokens_that_are_not_in_the_file_are_reviewed_by_the_cluster() -> None:
    access = AccessControl(reviews=TokenReviewClient(Cluster()))
    caller = await access.admit({"Authorization": "Bearer t-ann"}, "192.0.2.1")
    assert caller.name == "ann"
    with pytest.raises(Problem) as raised:
        await access.admit({"Authorization": "Bearer t-nobody"}, "192.0.2.1")
    assert raised.value.kind.status == 401
    await access.close()
