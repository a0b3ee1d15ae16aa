"""Service accounts as agents have them: with some rights, and with tokens that name a pod and its node."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cluster import Cluster

Rule = dict[str, list[str]]

PATCH_NODES: Rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}


@dataclass(frozen=True, slots=True)
class Account:
    cluster: Cluster
    name: str
    namespace: str = "default"

    def token(self) -> str:
        """Another one at each call, bound to the account's pod."""
        return self.cluster.token_for(
            self.name,
            "--bound-object-kind=Pod",
            f"--bound-object-name={self.name}",
            namespace=self.namespace,
        )

    def settings(self, token_file: Path) -> dict[str, str]:
        """Of an agent that speaks to this cluster as this account."""
        if not token_file.exists():
            put_token(token_file, self.token())
        return {
            "node_name": self.cluster.node_name,
            "kube_api_url": self.cluster.api_url,
            "kube_ca_file": str(self.cluster.ca_file),
            "kube_token_file": str(token_file),
        }

    def grant(self, *rules: Rule) -> None:
        """Beyond what it had. Goes with the account."""
        name = f"e2e-{self.name}"
        rbac = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
        binding = {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}],
        }
        self.cluster.apply({**role, "rules": list(rules)}, binding)

    def withdraw(self) -> None:
        """What was granted."""
        self.cluster.kubectl(
            "delete", "clusterrole,clusterrolebinding", f"e2e-{self.name}", "--ignore-not-found"
        )

    def remove(self) -> None:
        self.withdraw()
        self.cluster.kubectl(
            "delete", "pod,serviceaccount", self.name, f"--namespace={self.namespace}", "--ignore-not-found"
        )


def put_token(path: Path, token: str) -> None:
    """Into a file that is replaced at one stroke, as the kubelet does it."""
    new = path.with_suffix(".new")
    new.write_text(token)
    new.replace(path)


@contextmanager
def account(cluster: Cluster, name: str, rules: Sequence[Rule] = ()) -> Iterator[Account]:
    """With a running pod of the same name."""
    made = Account(cluster, name)
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    try:
        start_pod(made)
        if rules:
            made.grant(*rules)
        yield made
    finally:
        made.remove()


def start_pod(account: Account) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": account.name, "namespace": account.namespace},
        "spec": {
            "serviceAccountName": account.name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": images.PAUSE_TAG, "imagePullPolicy": "Never"}],
        },
    }
    account.cluster.apply(pod)
    account.cluster.wait_for(f"pod/{account.name}", "condition=Ready", namespace=account.namespace)
