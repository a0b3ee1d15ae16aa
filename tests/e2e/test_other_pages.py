"""The commands of the other pages that speak of clusters, as they stand there, on a real one: one release
goes through all of them. Those of docs/install.md have a module of their own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tests.certificates import make_certificates
from tests.e2e.kubernetes.agent_image import agent_image, fleet_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    PATIENCE_SECONDS,
    RELEASE,
    Release,
    labelled,
    namespace,
    on_simulated,
)
from tests.e2e.kubernetes.node import API_SERVICE_ADDRESS
from tests.e2e.kubernetes.npus import make_device_nodes, on_simulated_npus
from tests.e2e.kubernetes.operator_kinds import monitor_kinds
from tests.e2e.page_commands import DOCS, Shell, commands, places, sections
from tests.repository import REPOSITORY
from tests.waiting import until_passes

from accelscope.simulate import SimulatedNode, read_node

Place = tuple[str, str, int]  # page, section, which of its blocks of commands

PAGES = (
    *("device-plugin", "node-object", "security", "fleet"),
    *(f"switching/{path.stem}" for path in sorted((DOCS / "switching").glob("*.md"))),
)
IN_A_CLUSTER, GRANTS = "In a cluster", "What a cluster must grant"
STEPS: tuple[Place, ...] = (
    ("device-plugin", "Install", 0),
    ("device-plugin", "Install", 3),
    ("device-plugin", "Install", 4),
    ("switching/furiosa", "Metrics", 0),
    ("switching/furiosa", "Metrics", 1),
    ("switching/furiosa", "Labels", 0),
    ("switching/npu-exporter", "npu-exporter", 0),
    ("switching/npu-exporter", "The annotation `k8s-monitor.io/npu-metrics`", 0),
    ("switching/amd-device-metrics-exporter", "", 0),
    ("switching/dcgm-exporter", "", 0),
    ("switching/vgpu", "k8s-vgpu-monitor", 0),
    ("node-object", "When the agent goes first", 0),
    ("fleet", GRANTS, 0),
    ("fleet", GRANTS, 1),
    ("switching/exec-collector", "Steps", 0),
    ("switching/exec-collector", "Steps", 1),
    ("switching/exec-collector", "Steps", 2),
    ("fleet", IN_A_CLUSTER, 1),
    ("fleet", IN_A_CLUSTER, 2),
    ("fleet", IN_A_CLUSTER, 3),
    ("fleet", IN_A_CLUSTER, 4),
    ("fleet", IN_A_CLUSTER, 5),
)
NOT_HERE: dict[Place, str] = {
    ("device-plugin", "Install", 1): "the same objects without Helm: test_manifests_cluster.py",
    (
        "device-plugin",
        "Install",
        2,
    ): "its image comes from a registry; test_device_plugin.py has it with another",
    ("switching/amd-device-metrics-exporter", "", 1): "an object of AMD's operator",
    ("switching/dcgm-exporter", "", 1): "an object of NVIDIA's operator",
    ("switching/dcgm-exporter", "Bring your counters along", 0): "a ConfigMap of NVIDIA's operator",
    ("fleet", IN_A_CLUSTER, 0): "agent_image.py does it, with buildah and without a registry",
}

OPERATOR = "gpu-operator"
# What the pages apply, and the namespace that it brings along.
OF_MANIFESTS = {
    "fleet": "accelscope-fleet",
    "fleet-reader": "accelscope-fleet-reader",
    "fleet-reader-exec": "accelscope-fleet-reader",
}
BINDING = "grafana-reads-the-fleet"
# Commands that fetch a token, and the file that they write it into.
TOKENS = {("fleet", GRANTS): "paris.token", ("switching/exec-collector", "Steps"): "berlin.token"}


def described_clusters(cluster: Cluster) -> str:
    """The list of the page on exec-based collectors, with this cluster in the place of theirs."""
    [text] = [
        text
        for language, text in sections(DOCS / "switching" / "exec-collector.md")["Steps"]
        if language == "yaml"
    ]
    listed = yaml.safe_load(text)
    [entry] = listed["clusters"]
    entry["server"]["url"] = cluster.api_url
    return yaml.safe_dump(listed)


@pytest.fixture(scope="module")
def shell(cluster: Cluster, folder: Path) -> Iterator[Shell]:
    cluster.import_image(agent_image())
    cluster.import_image(fleet_image())
    npus = SimulatedNode(
        read_node("node: warboys\nfuriosa:\n  devices: [{model: warboy}]\n"), folder / "npus"
    )
    npus.build(at=1000.0)
    make_device_nodes(npus)
    features = folder / "features.d"
    features.mkdir()
    agent = on_simulated(npus)
    values = {
        "agents": {"furiosa": {**agent, "resources": ENOUGH_CPU}},
        "devicePlugin": {"env": on_simulated_npus(npus)["env"], "resources": ENOUGH_CPU},
        "nodeObject": {"featureFileFolder": str(features)},
        # By its address: the node has no name server.
        "fleet": {"ownCluster": {"url": f"https://{API_SERVICE_ADDRESS}"}},
    }
    variables = {"KUBE_EDITOR": "true"}
    certificates = make_certificates(folder)
    (folder / "fleet.crt").write_bytes(certificates.server.read_bytes())
    (folder / "fleet.key").write_bytes(certificates.server_key.read_bytes())
    [values_file] = [
        text for _, text in sections(DOCS / "fleet.md")[IN_A_CLUSTER] if "# my-values.yaml" in text
    ]
    (folder / "my-values.yaml").write_text(values_file)
    with ExitStack() as stack:
        stack.enter_context(monitor_kinds(cluster))
        stack.enter_context(labelled(cluster, "agents.accelscope.io/furiosa=true"))
        stack.enter_context(namespace(cluster))
        stack.enter_context(namespace(cluster, OPERATOR))
        for name, its_namespace in OF_MANIFESTS.items():
            file = REPOSITORY / "deploy" / "manifests" / f"{name}.yaml"
            words = ("delete", f"--filename={file}", "--ignore-not-found", "--wait=false")
            stack.callback(cluster.kubectl, *words)
            cluster.wait_for(f"namespace/{its_namespace}", "delete", seconds=PATIENCE_SECONDS)
        stack.callback(cluster.kubectl, "delete", f"clusterrolebinding/{BINDING}", "--ignore-not-found")
        release = Release(cluster, folder)
        stack.callback(release.helm, "uninstall", f"{RELEASE}-amd", "--ignore-not-found")
        stack.callback(release.remove)
        release.put(values)
        yield Shell(cluster, folder, variables)


def test_every_command_is_tried_or_named_with_the_reason() -> None:
    written = {(page, *place) for page in PAGES for place in places(DOCS / f"{page}.md")}
    assert written == {*STEPS, *NOT_HERE}
    assert not set(STEPS) & NOT_HERE.keys()


def has_fetched_token(shell: Shell, page: str, section: str) -> None:
    """The control plane makes it a moment after the Secret; the page says to fetch it again then."""
    shell.run(commands(DOCS / f"{page}.md", section)[0])
    assert (shell.folder / TOKENS[page, section]).read_bytes()


@pytest.mark.parametrize(("page", "section", "number"), STEPS)
def test_commands_do_what_the_page_says(
    cluster: Cluster, shell: Shell, page: str, section: str, number: int
) -> None:
    if page == "switching/exec-collector" and number == 1:
        (shell.folder / "clusters.yaml").write_text(described_clusters(cluster))
    if number == 0 and (page, section) in TOKENS:
        until_passes(lambda: has_fetched_token(shell, page, section))
        return
    said = shell.run(commands(DOCS / f"{page}.md", section)[number])
    match page, section, number:
        case "device-plugin", _, 0:
            assert "successfully rolled out" in said
        case "switching/exec-collector", _, 1:
            assert "\n[]" in said, "there are no driver pods here"
        case "fleet", "In a cluster", 1:
            assert '"id":"own"' in said
