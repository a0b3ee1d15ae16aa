"""Somebody who runs a cluster, and types what the pages say."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import NAMESPACE, PATIENCE_SECONDS
from tests.e2e.page_commands import Shell
from tests.waiting import wait_until

_DEVICES = "devices.yaml"
_PUT = re.compile(r"(helm (?:upgrade|install)(?: --install)? accelscope deploy/chart)")


class Owner:
    def __init__(self, cluster: Cluster, shell: Shell) -> None:
        self.cluster = cluster
        self.folder = shell.folder
        self._shell = shell
        self.node_has({})

    def node_has(self, values: Mapping[str, Any]) -> None:
        """What the node would have of itself: a driver, of which the chart's values must say where the
        simulated one is. They go with every release; all other values are those of the pages."""
        (self.folder / _DEVICES).write_text(yaml.safe_dump(dict(values)))

    def run(self, script: str) -> str:
        return self._shell.run(_PUT.sub(rf"\1 --values={_DEVICES}", script))

    def until(self, script: str, fulfilled: Callable[[str], bool], what: str) -> str:
        """Typed again, until it says what it should."""
        said = ""

        def right() -> bool:
            nonlocal said
            said = self.run(script)
            return fulfilled(said)

        try:
            wait_until(right, what, PATIENCE_SECONDS)
        except AssertionError as error:
            told = self.cluster.kubectl("describe", "pods", f"--namespace={NAMESPACE}")
            raise AssertionError(f"{error}\n{said}\n{told}") from None
        return said
