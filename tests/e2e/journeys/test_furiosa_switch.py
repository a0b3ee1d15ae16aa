"""A cluster with Furiosa's cards, whose plugin, feature discovery and exporter are to be replaced."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tests.e2e.journeys.guide import block, command
from tests.e2e.journeys.owners import Owner
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    PATIENCE_SECONDS,
    labelled,
    namespace,
    on_simulated,
)
from tests.e2e.kubernetes.npus import make_device_nodes, on_simulated_npus
from tests.e2e.kubernetes.offered import offering
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

INSTALL, PLUGIN, SWITCHING = "docs/install.md", "docs/device-plugin.md", "docs/switching/furiosa.md"
WARBOYS = "node: warboys\nfuriosa:\n  devices: [{model: warboy, count: 2}]\n"
NPU = "beta.furiosa.ai/npu"
OLD = "furiosa-system"  # where the old programs are
OLD_CONFIG = {"defaultPe": "Single", "interval": 1, "disabledDevices": []}  # each core by itself
EXAMPLE = "deploy/examples/npu-pod.yaml"


@pytest.fixture(scope="module")
def card_owner(cluster: Cluster, owner: Owner, features_folder: Path, folder: Path) -> Iterator[Owner]:
    """Of a node with two Warboys, which Node Feature Discovery has found and the old plugin's file is for.
    The owner's own image of the example is at hand."""
    cluster.import_image(images.base_image())
    cards = SimulatedNode(read_node(WARBOYS), folder / "cards")
    cards.build(at=1000.0)
    make_device_nodes(cards)
    # A container's own /sys takes no mount point for a driver that this machine does not have.
    plugin = on_simulated_npus(cards, container_sys_root="/npu/sys")["env"]
    owner.node_has(
        {
            "agents": {"furiosa": {**on_simulated(cards), "resources": ENOUGH_CPU}},
            "devicePlugin": {"env": plugin, "resources": ENOUGH_CPU},
            "nodeObject": {"featureFileFolder": str(features_folder)},
        }
    )
    about = {"name": "npu-device-plugin", "namespace": OLD}
    file = {"config.yaml": yaml.safe_dump(OLD_CONFIG)}
    example = yaml.safe_load((owner.folder / EXAMPLE).read_text())
    [main] = example["spec"]["containers"]
    main |= {"image": images.base_image().tag, "imagePullPolicy": "Never"}
    (owner.folder / "npu-pod.yaml").write_text(yaml.safe_dump(example))
    with ExitStack() as stack:
        stack.enter_context(labelled(cluster, "feature.node.kubernetes.io/pci-1200_1ed2.present=true"))
        stack.enter_context(namespace(cluster, OLD))
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": file})
        stack.callback(cluster.kubectl, "delete", "pod/npu-pod", "--ignore-not-found")
        yield owner


def test_from_furiosas_programs_to_ours(cluster: Cluster, card_owner: Owner, tmp_path: Path) -> None:
    """Left out: building and pushing the image (there is no registry), removing Furiosa's own releases, which
    cannot be had here, and the runtime in the pod of the example. A plugin of the tests stands for the old
    one until the page says that it goes; Node Feature Discovery is real; nobody acts upon the
    ServiceMonitor."""
    install = block(INSTALL, "Install with Helm", "helm install")
    said = card_owner.run(of_furiosa(install))
    assert 'daemon set "accelscope-furiosa" successfully rolled out' in said

    # The exporter.
    card_owner.run(block(SWITCHING, "Metrics", "furiosa-2025"))
    card_owner.run(of_furiosa(command(INSTALL, "Install with Helm", "kubectl rollout status")))
    page = of_furiosa(block(INSTALL, "Install with Helm", "port-forward")).replace("| head", "")
    card_owner.until(page, lambda said: "\nfuriosa_npu_alive{" in said, "the names of Furiosa's exporter")

    # Discovery.
    card_owner.run(block(SWITCHING, "Labels", "nodeObject.featureLabels=nfd"))
    wait_until(
        lambda: (
            {"furiosa.ai/npu.count": "2", "beta.furiosa.ai/npu.family": "warboy"}.items()
            <= cluster.get(f"node/{cluster.node_name}")["metadata"]["labels"].items()
        ),
        "the Node has Furiosa's labels",
        PATIENCE_SECONDS,
    )

    # The plugin.
    with offering(cluster.device_plugins_folder, tmp_path, NPU, ["npu0", "npu1"]):
        keep = block(SWITCHING, "Device plugin", "kubectl get configmap npu-device-plugin")
        card_owner.run(keep.replace("NAMESPACE", OLD))
    with_file = block(PLUGIN, "Install", "devicePlugin.enabled=true", "rollout status").replace(
        "--set image", "-f device-plugin-values.yaml --set image"
    )
    said = card_owner.run(with_file)
    assert 'daemon set "accelscope-device-plugin" successfully rolled out' in said
    look = command(PLUGIN, "Install", "kubectl get nodes -o custom-columns")
    card_owner.until(look, lambda said: said.split()[-1] == "4", "the Node has all cores to give")

    ask = block(PLUGIN, "Install", EXAMPLE).replace(EXAMPLE, "npu-pod.yaml")
    given = re.compile(r"^npu[01]pe[01]$.* /dev/npu[01]_mgmt$", re.MULTILINE | re.DOTALL)
    card_owner.until(
        ask, lambda said: given.search(said) is not None, "a pod has a core and its device files"
    )


def of_furiosa(script: str) -> str:
    """As who has their cards reads it."""
    return script.replace("accelscope-nvidia", "accelscope-furiosa")
