"""TokenReview and SubjectAccessReview as bytes: what is asked, and what counts as a yes."""

import json

import pytest

from accelscope.kube.errors import DecodeError, KubeError, Reason
from accelscope.kube.token_review import (
    KubeUser,
    access_review,
    decode_access_review,
    decode_token_review,
    pause_seconds,
    token_review,
    told_of,
)


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
                "hint": "who asks needs the right to create tokenreviews and subjectaccessreviews",
            },
        ),
    ],
    ids=["ours", "theirs", "401", "403"],
)
def test_of_a_review_that_failed_only_our_own_words_are_told(
    error: KubeError, told: dict[str, object]
) -> None:
    assert told_of(error) == told


@pytest.mark.parametrize(("asked_for", "seconds"), [(None, 1), (0.2, 1), (7, 7), (86400, 60)])
def test_the_pause_after_a_failure_is_as_long_as_the_server_asks_for_within_bounds(
    asked_for: float | None, seconds: float
) -> None:
    assert pause_seconds(KubeError(Reason.THROTTLED, "later", retry_after=asked_for)) == seconds
