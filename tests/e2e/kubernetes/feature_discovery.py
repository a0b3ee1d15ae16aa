"""Node Feature Discovery's own worker and master, with the cluster of the tests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.pki import write_kubeconfig
from tests.e2e.kubernetes.programs import API_ADDRESS

from accelscope.sinks import DOMAINS

_NFD = "sigs.k8s.io/node-feature-discovery"
_NAMESPACE = "node-feature-discovery"


@contextmanager
def features_folder(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Read by a real nfd-worker every second; a real nfd-master makes labels of it."""
    features = folder / "features.d"
    features.mkdir()
    crds = (
        binaries.module_files(_NFD, *binaries.version_of(_NFD)) / "deployment/base/nfd-crds/nfd-api-crds.yaml"
    )
    cluster.apply(
        crds.read_text(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    )
    cluster.wait_for("crd/nodefeatures.nfd.k8s-sigs.io", "condition=Established")
    environment = {"NODE_NAME": cluster.node_name, "KUBERNETES_NAMESPACE": _NAMESPACE}
    kubeconfig = f"-kubeconfig={_kubeconfig_in_the_node(cluster, folder)}"
    master = cluster.start_program(
        "nfd-master",
        binaries.program("nfd-master"),
        kubeconfig,
        f"-extra-label-ns={','.join(DOMAINS)}",
        "-metrics=18081",
        "-grpc-health=18082",
        environment=environment,
    )
    options = {"core": {"featureSources": ["local"], "labelSources": ["local"], "sleepInterval": "1s"}}
    worker = cluster.start_program(
        "nfd-worker",
        *_in_its_own_etc(features),
        binaries.program("nfd-worker"),
        kubeconfig,
        "-no-owner-refs",
        f"-options={json.dumps(options)}",
        "-metrics=18083",
        "-grpc-health=18084",
        environment=environment,
    )
    try:
        yield features
    finally:
        worker.stop()
        master.stop()
        cluster.node.run(binaries.program("nfd-master"), kubeconfig, "-prune")
        cluster.kubectl("delete", "--filename=-", "--wait=true", input=crds.read_text())
        cluster.kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


def _kubeconfig_in_the_node(cluster: Cluster, folder: Path) -> Path:
    """The administrator's: what these programs may do is their own affair."""
    server = f"https://{API_ADDRESS[0]}:{API_ADDRESS[1]}"
    return write_kubeconfig(folder / "nfd.kubeconfig", server, cluster.ca_file, cluster.admin_token)


def _in_its_own_etc(features: Path) -> list[str]:
    """A command before a command, which then finds nothing but this folder in /etc, where the worker looks
    for it; the machine has no such folder and does not get one."""
    fixed = "/etc/kubernetes/node-feature-discovery/features.d"
    prepare = f'mount -t tmpfs tmpfs /etc && mkdir -p {fixed} && mount --bind "$0" {fixed} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", prepare, str(features)]
