"""What an API server answers to reviews of tokens and permissions."""

import json
from dataclasses import dataclass, field
from typing import Any

from accelscope.kube.token_review import ACCESS_REVIEWS, TOKEN_REVIEWS


@dataclass
class Reviews:
    users: dict[str, str]  # by token
    rights: dict[str, set[str]] = field(default_factory=dict)  # paths that a user may get

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        review = json.loads(body)
        spec = review["spec"]
        status: dict[str, Any] = {}
        if path == TOKEN_REVIEWS:
            if (name := self.users.get(spec["token"])) is not None:
                status = {"authenticated": True, "user": {"username": name, "groups": ["everybody"]}}
        else:
            assert path == ACCESS_REVIEWS
            asked = spec["nonResourceAttributes"]
            status = {"allowed": asked["verb"] == "get" and asked["path"] in self.rights[spec["user"]]}
        return {**review, "status": status}
