"""Who a fleet is in the cluster: the account of deploy/manifests/fleet-reader*.yaml, and others that have its
rights, all of them or all but one."""

import base64
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.kubernetes.accounts import put_token
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.e2e.kubernetes.deployment import namespace
from tests.repository import MANIFESTS
from tests.waiting import wait_until

NAMESPACE = "accelscope-fleet-reader"
ACCOUNT = "accelscope-fleet-reader"
SECRET = f"secret/{ACCOUNT}-token"

_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """One rule of the manifests: a resource in a namespace, or in the whole cluster."""

    resource: str
    namespace: str | None = None

    def is_of(self, role: dict[str, Any], rule: dict[str, Any]) -> bool:
        return (role["metadata"].get("namespace"), rule["resources"]) == (self.namespace, [self.resource])


def manifests() -> str:
    """Both, as they are applied."""
    texts = [(MANIFESTS / f"{name}.yaml").read_text() for name in ("fleet-reader", "fleet-reader-exec")]
    return "\n---\n".join(texts)


class Readers:
    """Rights are known to the API server a moment after they are applied: see `until_known`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects = [each for each in yaml.safe_load_all(manifests()) if each is not None]

    def secret_token(self) -> str:
        """Of the manifests' own account, which the cluster writes into its Secret."""
        tokens: list[str] = []

        def written() -> bool:
            data = self._cluster.get(SECRET, NAMESPACE).get("data", {})
            tokens[:] = [base64.b64decode(data["token"]).decode()] if "token" in data else []
            return bool(tokens)

        wait_until(written, "the account's token is in its Secret", PATIENCE_SECONDS)
        return tokens[0]

    def rights(self) -> set[Right]:
        """All that the manifests give."""
        return {
            Right(resource, role["metadata"].get("namespace"))
            for role in self._objects
            if role["kind"] in _ROLES
            for rule in role["rules"]
            for resource in rule["resources"]
        }

    def add_account(self, name: str, without: Right, token_file: Path) -> None:
        """With a token that is good for an hour."""
        about = {"name": name, "namespace": NAMESPACE}
        self._cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
        self._bind(name, {"kind": "ServiceAccount", **about}, without)
        put_token(token_file, self._cluster.token_for(name, namespace=NAMESPACE))

    def add_user(self, name: str) -> None:
        """Whom a certificate names."""
        self._bind(name, {"kind": "User", "name": name, "apiGroup": _RBAC}, None)

    def until_known(self, user: str) -> None:
        """Whether this user, the last that was added, may ask for nodes by now. It is as good as all of them:
        the API server hears of what is applied in its order."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {"verb": "list", "resource": "nodes"}},
        }

        def allowed() -> bool:
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            return bool(self._cluster.api.request("POST", path, review).json()["status"]["allowed"])

        wait_until(allowed, f"{user} may list nodes", PATIENCE_SECONDS)

    def remove(self) -> None:
        """What lies in namespaces goes with them."""
        for kind in ("clusterrolebinding", "clusterrole"):
            self._cluster.kubectl("delete", kind, "--selector=app.kubernetes.io/component=fleet-reader")

    def _bind(self, name: str, subject: dict[str, str], without: Right | None) -> None:
        made = []
        for each in self._objects:
            if each["kind"] not in (*_ROLES, *_BINDINGS):
                continue
            another = copy.deepcopy(each)
            another["metadata"]["name"] += f".{name}"
            if each["kind"] in _ROLES:
                kept = [rule for rule in each["rules"] if without is None or not without.is_of(each, rule)]
                another["rules"] = kept
            else:
                another["roleRef"]["name"] += f".{name}"
                another["subjects"] = [subject]
            made.append(another)
        self._cluster.apply(*made)


@contextmanager
def readers(cluster: Cluster) -> Iterator[Readers]:
    """The manifests are applied. The namespaces of agents and of the GPU operator must be there."""
    with namespace(cluster, NAMESPACE, "restricted"):
        cluster.kubectl("apply", "--filename=-", input=manifests())
        made = Readers(cluster)
        try:
            yield made
        finally:
            made.remove()
