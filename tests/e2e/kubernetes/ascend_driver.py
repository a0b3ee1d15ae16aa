"""A simulated Ascend driver, installed in the node of the tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.kubernetes.cluster import Cluster

from accelscope.simulate import SimulatedNode


@contextmanager
def installed(cluster: Cluster, node: SimulatedNode) -> Iterator[None]:
    """At the places that its installer uses, in the node alone. The tool looks for its answers beside itself,
    where only the driver's own folder is in the pod."""
    script = f"""
        mount -t tmpfs tmpfs /usr/local
        mkdir -p /usr/local/Ascend /usr/local/dcmi /usr/local/sbin
        cp -r {node.folder}/opt/Ascend/driver /usr/local/Ascend/driver
        cp -r {node.folder}/bin {node.folder}/state /usr/local/Ascend/driver/
        printf '#!/bin/sh\\nexec /usr/local/Ascend/driver/bin/npu-smi "$@"\\n' >/usr/local/sbin/npu-smi
        chmod 755 /usr/local/sbin/npu-smi
    """
    cluster.node.run("sh", "-ec", script)
    try:
        yield
    finally:
        cluster.node.run("umount", "--lazy", "/usr/local")
