"""A Prometheus in the node that finds what it scrapes by asking the API server, as one in a pod does."""

import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.forward import Forward
from tests.e2e.kubernetes.node import API_SERVICE_ADDRESS
from tests.e2e.prometheus_server import PrometheusApi
from tests.waiting import wait_until

ACCOUNT = "prometheus"
PATIENCE_SECONDS = 180.0

_ADDRESS = ("127.0.0.1", 9090)  # in the node, where nobody else has it
# Where a pod has them. /run is the node's own.
_SECRETS = "/run/secrets/kubernetes.io/serviceaccount"


@contextmanager
def discovering(
    cluster: Cluster, folder: Path, config: Mapping[str, object], namespace: str
) -> Iterator[PrometheusApi]:
    """With an account that may find pods of this namespace, and nothing else."""
    cluster.apply(*_rights(namespace))
    _give(cluster, "token", cluster.token_for(ACCOUNT, namespace=namespace))
    _give(cluster, "ca.crt", cluster.ca_file.read_text())
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(config)))
    program = cluster.start_program(
        "prometheus",
        binaries.program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={_ADDRESS[0]}:{_ADDRESS[1]}",
        "--scrape.discovery-reload-interval=1s",  # tests wait for what it finds
        environment={"KUBERNETES_SERVICE_HOST": API_SERVICE_ADDRESS, "KUBERNETES_SERVICE_PORT": "443"},
    )

    def serves() -> bool:
        program.check()
        try:
            return bool(api.query("vector(1)"))
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        with Forward(cluster.node.network_namespace, lambda: _ADDRESS) as forward:
            api = PrometheusApi(forward.port)
            wait_until(serves, "Prometheus answers", PATIENCE_SECONDS)
            yield api
    finally:
        program.stop()
        cluster.node.run("rm", "-r", _SECRETS)


def _give(cluster: Cluster, name: str, content: str) -> None:
    cluster.node.run("sh", "-c", f"mkdir -p {_SECRETS} && cat >{_SECRETS}/{name}", input=content)


def _rights(namespace: str) -> list[dict[str, object]]:
    """What the comment in deploy/chart/examples/scrape-config.yaml asks for."""
    about = {"name": ACCOUNT, "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": about,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", **about}],
        },
    ]
