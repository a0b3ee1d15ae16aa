"""The commands of docs/install.md, as they stand there, on a real cluster; the registry alone is another, for
the image was imported."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.certificates import make_certificates
from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.agent_image import REGISTRY, REPOSITORY, agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    NAMESPACE,
    PATIENCE_SECONDS,
    objects_of_ours,
    runtime_class,
)
from tests.e2e.kubernetes.operator_kinds import monitor_kinds

import accelscope

PAGE = REPOSITORY / "docs" / "install.md"
# Section and which of its blocks of commands, in the order in which somebody would come to them.
STEPS = (
    ("Tell nodes apart", 0),
    ("Install with Helm", 0),
    ("Install with Helm", 1),
    ("Let Prometheus find it", 0),
    ("HTTPS, tokens, reviews", 0),
    ("HTTPS, tokens, reviews", 1),
    ("Annotations and labels on nodes", 0),
    ("Tell nodes apart", 1),
    ("Upgrade and roll back", 0),
    ("Uninstall", 0),
    ("Uninstall", 1),
)
ELSEWHERE = {
    "Build the image",  # agent_image.py does, with buildah
    "Install with kubectl",  # test_manifests.py
}
BINDING = ("ClusterRoleBinding", "prometheus-reads-accelscope")


def sections() -> dict[str, list[tuple[str, str]]]:
    """By title: language and text of each block."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    block = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return {title: block.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def commands(section: str) -> list[str]:
    return [text for language, text in sections()[section] if language == "sh"]


class Shell:
    """One in a folder that looks like a clone."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        programs = [str(binaries.program(name).parent) for name in ("kubectl", "helm")]
        self._environment = {
            "PATH": ":".join([*programs, "/usr/local/bin", "/usr/bin", "/bin"]),
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(folder),
        }
        self._words = {
            "registry.example.org/monitoring": REGISTRY,
            r"\bNODE\b": cluster.node_name,
            r"\bNEW\b": accelscope.__version__,
            # It warns of a /proc without init, and the first process of this node is none.
            "accelscope doctor": "accelscope doctor || test $? = 1",
            # Who types it is not as fast as a script.
            "curl ": "curl --retry 60 --retry-connrefused --retry-delay 1 ",
        }

    def run(self, script: str) -> str:
        for word, replacement in self._words.items():
            script = re.sub(word, replacement, script)
        whole = f"set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
        done = subprocess.run(
            ["bash", "-c", whole],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def shell(cluster: Cluster, folder: Path) -> Iterator[Shell]:
    cluster.import_image(agent_image())
    (folder / "deploy").symlink_to(REPOSITORY / "deploy")
    certificates = make_certificates(folder)
    (folder / "tls.crt").write_bytes(certificates.server.read_bytes())
    (folder / "tls.key").write_bytes(certificates.server_key.read_bytes())
    [(language, values)] = [
        block for block in sections()["Install with Helm"] if "my-values.yaml" in block[1]
    ]
    assert language == "yaml"
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
    written = {
        (title, number) for title in sections().keys() - ELSEWHERE for number, _ in enumerate(commands(title))
    }
    assert written == set(STEPS)


@pytest.mark.parametrize(("section", "number"), STEPS)
def test_commands_do_what_the_page_says(cluster: Cluster, shell: Shell, section: str, number: int) -> None:
    said = shell.run(commands(section)[number])
    if (section, number) == ("Install with Helm", 1):
        assert "# HELP " in said
    if section == "Upgrade and roll back":
        assert "Rollback was a success" in said
    if section == "Uninstall":
        assert objects_of_ours(cluster) == ({BINDING} if number == 0 else set())
