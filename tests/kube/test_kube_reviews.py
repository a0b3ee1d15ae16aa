"""TokenReview and SubjectAccessReview as bytes: what is asked, and what counts as a yes."""

import json

import pytest

from accelscope.kube.endpoint import DecodeError, KubeError, Reason
from accelscope.kube.token_review import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Decision,
    KubeUser,
    Verdict,
    VerdictCache,
    access_review,
    decode_access_review,
    decode_token_review,
    log_fields,
    pause_seconds,
    review,
    token_review,
)
from accelscope.rate_limit import Rate


def reviewed(status: object, kind: str = "TokenReview") -> bytes:
    return json.dumps({"kind": kind, "apiVersion": "x/v1", "metadata": {}, "status": status}).encode()


def test_a_token_is_asked_about_as_it_is() -> None:
    assert json.loads(token_review("abc.def")) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "abc.def"},
    }


def test_all_that_the_api_server_knows_of_a_user_goes_into_the_question_about_rights() -> None:
    user = decode_token_review(
        reviewed(
            {
                "authenticated": True,
                "user": {
                    "username": "system:serviceaccount:monitoring:prometheus",
                    "uid": "u-1",
                    "groups": ["system:serviceaccounts", "system:authenticated"],
                    "extra": {
                        "authentication.kubernetes.io/pod-name": ["prometheus-0"],
                        "scopes": ["a", "b"],
                    },
                },
                "audiences": ["https://kubernetes.default.svc"],
            }
        )
    )
    assert user is not None
    assert json.loads(access_review(user, "/metrics")) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:monitoring:prometheus",
            "uid": "u-1",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"], "scopes": ["a", "b"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


def test_what_a_user_does_not_have_is_not_asked_about() -> None:
    user = decode_token_review(reviewed({"authenticated": True, "user": {"username": "ann", "groups": None}}))
    assert user == KubeUser("ann")
    assert json.loads(access_review(user, "/"))["spec"] == {
        "user": "ann",
        "nonResourceAttributes": {"path": "/", "verb": "get"},
    }


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False},
        {"error": "token has expired"},
        {"authenticated": False, "user": {"username": "ann"}},
    ],
)
def test_a_token_that_is_not_known(status: object) -> None:
    assert decode_token_review(reviewed(status)) is None


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": True, "reason": "RBAC: allowed by ClusterRoleBinding"}, True),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": False}, False),
        ({"allowed": False, "evaluationError": "no such role"}, False),
        ({}, False),
    ],
)
def test_who_is_allowed(status: object, allowed: bool) -> None:
    assert decode_access_review(reviewed(status, "SubjectAccessReview")) is allowed


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[" * 100_000,
        b"null",
        b"[]",
        b"\xff",
        b'{"kind": "TokenReview"}',
        reviewed(None),
        reviewed([True]),
        reviewed({"authenticated": True, "user": {"username": "ann"}}, "Status"),
        reviewed({"authenticated": "true", "user": {"username": "ann"}}),
        reviewed({"authenticated": 1, "user": {"username": "ann"}}),
        reviewed({"authenticated": None, "user": {"username": "ann"}}),
        reviewed({"authenticated": True}),
        reviewed({"authenticated": True, "user": {}}),
        reviewed({"authenticated": True, "user": {"username": ""}}),
        reviewed({"authenticated": True, "user": {"username": ["ann"]}}),
        reviewed({"authenticated": True, "user": {"username": "ann", "uid": 7}}),
        reviewed({"authenticated": True, "user": {"username": "ann", "groups": "system:masters"}}),
        reviewed({"authenticated": True, "user": {"username": "ann", "groups": [1]}}),
        reviewed({"authenticated": True, "user": {"username": "ann", "extra": {"a": "b"}}}),
    ],
)
def test_what_is_no_review_is_an_error_and_never_a_yes(answer: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_token_review(answer)


@pytest.mark.parametrize(
    "answer", [b"{", reviewed({"allowed": "yes"}, "SubjectAccessReview"), reviewed({"allowed": True})]
)
def test_what_is_no_review_of_rights_is_an_error(answer: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_access_review(answer)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KubeError(Reason.TIMEOUT, "no answer"), {"reason": "timeout", "error": "no answer"}),
        (KubeError(Reason.BAD_ANSWER, "abc.def is odd"), {"reason": "bad_answer"}),
        (KubeError(Reason.UNAUTHORIZED, "abc.def", status=401), {"reason": "unauthorized", "status": 401}),
        (
            KubeError(Reason.FORBIDDEN, "abc.def", status=403),
            {
                "reason": "forbidden",
                "status": 403,
                "hint": "the service account needs the right to create tokenreviews and subjectaccessreviews",
            },
        ),
    ],
    ids=["ours", "theirs", "401", "403"],
)
def test_of_a_review_that_failed_only_our_own_words_are_told(
    error: KubeError, told: dict[str, object]
) -> None:
    assert log_fields(error) == told


@pytest.mark.parametrize(("asked_for", "seconds"), [(None, 1), (0.2, 1), (7, 7), (86400, 60)])
def test_the_pause_after_a_failure_is_as_long_as_the_server_asks_for_within_bounds(
    asked_for: float | None, seconds: float
) -> None:
    assert pause_seconds(KubeError(Reason.THROTTLED, "later", retry_after=asked_for)) == seconds


class TestReview:
    def run(self, *answers: bytes) -> tuple[Verdict, list[str]]:
        questions = review("t", ("/read", "/admin"))
        asked, given = [next(questions)[0]], iter(answers)
        while True:
            try:
                path, body = questions.send(next(given))
            except StopIteration as end:
                return end.value, asked
            asked.append(json.loads(body)["spec"]["nonResourceAttributes"]["path"])
            assert path == ACCESS_REVIEWS

    ANN = reviewed({"authenticated": True, "user": {"username": "ann"}})
    YES, NO = (reviewed({"allowed": allowed}, "SubjectAccessReview") for allowed in (True, False))

    def test_asks_about_paths_until_one_is_refused(self) -> None:
        assert self.run(self.ANN, self.YES, self.YES) == (
            Verdict("ann", ("/read", "/admin")),
            [TOKEN_REVIEWS, "/read", "/admin"],
        )
        assert self.run(self.ANN, self.NO) == (Verdict("ann"), [TOKEN_REVIEWS, "/read"])
        assert self.run(reviewed({})) == (Verdict(), [TOKEN_REVIEWS])

    def test_a_malformed_response_is_an_error(self) -> None:
        with pytest.raises(KubeError) as caught:
            self.run(self.ANN, b"{}")
        assert caught.value.reason is Reason.BAD_ANSWER


ADMITTED, FORBIDDEN, UNKNOWN = Verdict("ann", ("/metrics",)), Verdict("bob"), Verdict()
DOWN = KubeError(Reason.UNREACHABLE, "away")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestVerdictCache:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def cache(self, clock: Clock) -> VerdictCache:
        return VerdictCache(limit=3, rate=Rate(1.0, 2), clock=clock)

    @pytest.mark.parametrize(("verdict", "seconds"), [(ADMITTED, 60), (FORBIDDEN, 10), (UNKNOWN, 10)])
    def test_a_verdict_counts_for_a_while(
        self, cache: VerdictCache, clock: Clock, verdict: Verdict, seconds: float
    ) -> None:
        assert cache.decide(b"k") == Decision(None, ask=True, wait=True)
        cache.succeeded(b"k", verdict)
        clock.now += seconds - 0.1
        assert cache.decide(b"k") == Decision(verdict, ask=False, wait=False)
        clock.now += 0.2
        assert cache.decide(b"k") == Decision(verdict if verdict.admitted else None, ask=True, wait=True)

    def test_while_reviews_fail_an_admitted_token_counts_for_five_minutes(
        self, cache: VerdictCache, clock: Clock
    ) -> None:
        cache.succeeded(b"k", ADMITTED)
        clock.now += 61
        assert cache.failed(b"k", DOWN)
        assert not cache.failed(b"k", DOWN), "the same reason again is no news"
        assert cache.decide(b"k") == Decision(ADMITTED, ask=False, wait=False)
        assert cache.decide(b"other") == Decision(None, ask=False, wait=True)
        assert (cache.paused, cache.retry_after()) == (True, 1.0)
        clock.now += 2
        assert cache.decide(b"k") == Decision(ADMITTED, ask=True, wait=False)
        clock.now += 240
        assert cache.usable(b"k") is None
        assert cache.decide(b"k") == Decision(None, ask=True, wait=True)

    def test_a_failure_of_one_token_does_not_delay_the_renewal_of_another(
        self, cache: VerdictCache, clock: Clock
    ) -> None:
        cache.succeeded(b"a", ADMITTED)
        cache.succeeded(b"b", ADMITTED)
        clock.now += 61
        cache.failed(b"a", KubeError(Reason.THROTTLED, "later", retry_after=30))
        assert (cache.decide(b"a").ask, cache.decide(b"b").ask, cache.retry_after()) == (False, True, 30)
        assert cache.succeeded(b"b", ADMITTED), "the first success after a failure"
        assert not cache.paused

    def test_refusals_make_room_first_and_then_the_oldest(self, cache: VerdictCache, clock: Clock) -> None:
        for key, verdict in ((b"a", ADMITTED), (b"b", ADMITTED), (b"c", UNKNOWN), (b"d", FORBIDDEN)):
            cache.succeeded(key, verdict)
            clock.now += 1
        assert [cache.usable(key) is not None for key in (b"a", b"b", b"c", b"d")] == [
            True,
            True,
            False,
            True,
        ]
        cache.succeeded(b"e", ADMITTED)
        clock.now += 1
        cache.succeeded(b"f", ADMITTED)
        assert [cache.usable(key) is not None for key in (b"a", b"b", b"e", b"f")] == [
            False,
            True,
            True,
            True,
        ]
        assert len(cache) == 3

    def test_unknown_tokens_have_a_rate(self, cache: VerdictCache, clock: Clock) -> None:
        assert [cache.take_turn() for _ in range(3)] == [0.0, 0.0, 1.0]
        clock.now += 1
        assert cache.take_turn() == 0.0

    def test_a_key_is_of_token_and_path_and_of_one_cache(self, cache: VerdictCache) -> None:
        keys = {cache.key("t"), cache.key("u"), cache.key("t", "/p"), VerdictCache(limit=1).key("t")}
        assert len(keys) == 4
        assert cache.key("t", "/p") == cache.key("t", "/p")
