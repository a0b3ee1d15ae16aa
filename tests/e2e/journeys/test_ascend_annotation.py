"""A cluster whose Node objects tell of Ascend chips, by a collector that is to be replaced."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.journeys.guide import block, command
from tests.e2e.journeys.owners import Owner
from tests.e2e.kubernetes import ascend_driver
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import ENOUGH_CPU, labelled
from tests.sinks.go_reader import decode_chips

from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node
from accelscope.vendors.ascend import NPU_METRICS

INSTALL, SWITCHING = "docs/install.md", "docs/switching/npu-exporter.md"
ANNOTATION = f"The annotation `{NPU_METRICS}`"
CHIPS = {"node": "chips", "ascend": {"devices": [{"model": "910b3", "count": 2}]}}
# As the collector left it when it was turned off.
LONG_AGO = "2025-01-02T03:04:05Z"
LAST = {"timestamp": LONG_AGO, "chips": [{"npu": 7, "chip": 0, "phy_id": 7, "health": "OK"}]}


@pytest.fixture(scope="module")
def npu_owner(cluster: Cluster, owner: Owner, folder: Path) -> Iterator[Owner]:
    """Of a node with a driver in its usual places, the label that Huawei's own programs ask for, and the old
    collector's last word on it."""
    chips = SimulatedNode(read_node(yaml.safe_dump(CHIPS)), folder / "chips")
    chips.build(at=1000.0)
    owner.node_has({"resources": ENOUGH_CPU})
    node = f"node/{cluster.node_name}"
    with ascend_driver.installed(cluster, chips), labelled(cluster, "accelerator/huawei-npu=ascend-1980"):
        cluster.kubectl("annotate", node, f"{NPU_METRICS}={json.dumps(LAST)}")
        yield owner
        cluster.kubectl("annotate", node, f"{NPU_METRICS}-")


def test_from_the_old_collector_to_ours(npu_owner: Owner) -> None:
    """Left out: building and pushing the image (there is no registry), and turning off the collector, which
    is the reader's own: what it wrote last is there when ours begins."""
    install = block(INSTALL, "Install with Helm", "helm install")
    said = npu_owner.run(install.replace("accelscope-nvidia", "accelscope-ascend"))
    assert 'daemon set "accelscope-ascend" successfully rolled out' in said

    npu_owner.run(block(SWITCHING, ANNOTATION, "nodeObject.npuAnnotation=true"))
    look = command(SWITCHING, ANNOTATION, "kubectl get node NODE")
    written = npu_owner.until(look, lambda said: LONG_AGO not in said, "ours has written")
    chips = decode_chips(written)
    assert [(each["npu"], each["phy_id"], each["health"]) for each in chips] == [(0, 0, "OK"), (1, 1, "OK")]
    assert all(
        {"bus_id", "power", "temp", "aicore", "hbm_used", "hbm_total"} <= each.keys() for each in chips
    )
