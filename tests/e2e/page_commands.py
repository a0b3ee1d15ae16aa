"""The commands of a page of the documentation, and a shell that runs them as they stand there; the registry
alone is another, for images are imported."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.agent_image import REGISTRY
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import PATIENCE_SECONDS
from tests.repository import REPOSITORY

DOCS = REPOSITORY / "docs"
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, list[tuple[str, str]]]:
    """By title: language and text of each block. What stands before the first title has none."""
    titled = re.sub(r"^#{2,} (.+)$", r"\0\1\0", page.read_text(), flags=re.MULTILINE)
    titles = ["", *titled.split("\0")[1::2]]
    return {
        title: [(language, textwrap.dedent(text)) for _, language, text in _BLOCK.findall(part)]
        for title, part in zip(titles, titled.split("\0")[::2], strict=True)
    }


def commands(page: Path, section: str) -> list[str]:
    """Its blocks of commands."""
    return [text for language, text in sections(page)[section] if language == "sh"]


def places(page: Path) -> set[tuple[str, int]]:
    """Section and number of every block of commands."""
    return {(title, number) for title in sections(page) for number, _ in enumerate(commands(page, title))}


class Shell:
    """One in a folder that looks like a clone."""

    def __init__(self, cluster: Cluster, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        (folder / "deploy").symlink_to(REPOSITORY / "deploy")
        programs = [str(binaries.program(name).parent) for name in ("kubectl", "helm")]
        programs.append(str(Path(sys.executable).parent))
        self._environment = {
            "PATH": ":".join([*programs, "/usr/local/bin", "/usr/bin", "/bin"]),
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(folder),
            **(variables or {}),
        }
        self._words = {
            "registry.example.org/monitoring": REGISTRY,
            r"\bNODE\b": cluster.node_name,
            # It warns of a /proc without init, and the first process of this node is none.
            "accelscope doctor": "accelscope doctor || test $? = 1",
        }

    def run(self, script: str) -> str:
        for word, replacement in self._words.items():
            script = re.sub(word, replacement, script)
        whole = f"set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
        done = subprocess.run(
            ["bash", "-c", whole],
            cwd=self.folder,
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
