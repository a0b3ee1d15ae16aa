"""The commands of docs/install.md, as they stand there, on a real cluster."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.certificates import make_certificates
from tests.e2e.kubernetes.agent_image import REGISTRY, agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import NAMESPACE, PATIENCE_SECONDS, objects_of_ours, runtime_class
from tests.e2e.kubernetes.operator_kinds import monitor_kinds
from tests.e2e.page_commands import DOCS, Shell, commands, places, sections

PAGE = DOCS / "install.md"
# Section and which of its blocks of commands, in the order in which somebody would come to them.
STEPS = (
    ("Select nodes", 0),
    ("Install with Helm", 0),
    ("Install with Helm", 1),
    ("Install with Helm", 2),
    ("Scrape it with Prometheus", 0),
    ("HTTPS, tokens, reviews", 0),
    ("HTTPS, tokens, reviews", 1),
    ("Annotations and labels on nodes", 0),
    ("Select nodes", 1),
    ("Upgrade and roll back", 0),
    ("Uninstall", 0),
    ("Uninstall", 1),
)
ELSEWHERE = {
    "Build the image",  # agent_image.py does, with buildah
    "Install with kubectl",  # test_manifests_cluster.py
}
BINDING = ("ClusterRoleBinding", "prometheus-reads-accelscope")


@pytest.fixture(scope="module")
def shell(cluster: Cluster, folder: Path) -> Iterator[Shell]:
    cluster.import_image(agent_image())
    # Another module's may still be going.
    cluster.wait_for(f"namespace/{NAMESPACE}", "delete", seconds=PATIENCE_SECONDS)
    certificates = make_certificates(folder)
    (folder / "tls.crt").write_bytes(certificates.server.read_bytes())
    (folder / "tls.key").write_bytes(certificates.server_key.read_bytes())
    [values] = [text for language, text in sections(PAGE)["Install with Helm"] if language == "yaml"]
    assert "my-values.yaml" in values
    (folder / "my-values.yaml").write_text(values.replace("registry.example.org/monitoring", REGISTRY))
    labels = [f"agents.accelscope.io/{name}-" for name in ("nvidia", "any")]
    with ExitStack() as stack:
        stack.callback(cluster.kubectl, "label", f"node/{cluster.node_name}", *labels)
        made = (f"clusterrolebinding/{BINDING[1]}", f"namespace/{NAMESPACE}")
        stack.callback(cluster.kubectl, "delete", *made, "--ignore-not-found", "--wait=true")
        stack.enter_context(runtime_class(cluster, "nvidia"))
        stack.enter_context(monitor_kinds(cluster))
        yield Shell(cluster, folder)


def test_every_command_is_tried() -> None:
    written = {(title, number) for title, number in places(PAGE) if title not in ELSEWHERE}
    assert written == set(STEPS)


@pytest.mark.parametrize(("section", "number"), STEPS)
def test_commands_do_what_the_page_says(cluster: Cluster, shell: Shell, section: str, number: int) -> None:
    said = shell.run(commands(PAGE, section)[number])
    if (section, number) == ("Install with Helm", 1):
        assert "# HELP " in said
    if section == "Upgrade and roll back":
        assert "Rollback was a success" in said
    if section == "Uninstall":
        assert objects_of_ours(cluster) == ({BINDING} if number == 0 else set())
