"""Asks the API server about one token: whose is it, and may that user read a page?"""

import threading
import time
from enum import Enum, auto
from typing import Protocol

from accelscope.kube.client import JSON, Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import DecodeError, KubeError, Reason
from accelscope.kube.token_review import (
    ACCESS_REVIEWS,
    ANSWER_LIMIT,
    TOKEN_REVIEWS,
    access_review,
    decode_access_review,
    decode_token_review,
    token_review,
)

REVIEW_SECONDS = 5.0  # for both questions together


class Verdict(Enum):
    ADMITTED = auto()
    UNKNOWN = auto()  # no token of this cluster, or one that has expired
    FORBIDDEN = auto()  # a user whom no rule lets read this path


class Reviewer(Protocol):
    """Used by several threads."""

    def review(self, token: str, path: str) -> Verdict:
        """Raises KubeError."""

    def close(self) -> None:
        """The calling thread will ask nothing more."""


class ApiServerReviewer:
    def __init__(self, endpoint: Endpoint, *, review_seconds: float = REVIEW_SECONDS) -> None:
        self._endpoint = endpoint
        self._review_seconds = review_seconds
        self._of_thread = threading.local()  # each has a client, whose deadline is that of its own review

    def review(self, token: str, path: str) -> Verdict:
        deadline = time.monotonic() + self._review_seconds
        try:
            user = decode_token_review(self._post(TOKEN_REVIEWS, token_review(token), deadline))
            if user is None:
                return Verdict.UNKNOWN
            allowed = decode_access_review(self._post(ACCESS_REVIEWS, access_review(user, path), deadline))
        except DecodeError as error:
            raise KubeError(Reason.BAD_ANSWER, str(error)) from None
        return Verdict.ADMITTED if allowed else Verdict.FORBIDDEN

    def close(self) -> None:
        if (client := self._client_of_thread()) is not None:
            client.close()

    def _client_of_thread(self) -> Client | None:
        client: Client | None = getattr(self._of_thread, "client", None)
        return client

    def _post(self, path: str, body: bytes, deadline: float) -> bytes:
        try:
            return self._posted(path, body, deadline)
        except KubeError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
        # The kept connection may have been closed just now. A review creates nothing: it may be asked twice.
        return self._posted(path, body, deadline)

    def _posted(self, path: str, body: bytes, deadline: float) -> bytes:
        client = self._client_of_thread()
        if client is None:
            client = self._of_thread.client = Client(self._endpoint)
        client.timeout_seconds = deadline - time.monotonic()
        return client.request("POST", path, body=body, content_type=JSON, limit_bytes=ANSWER_LIMIT).body
