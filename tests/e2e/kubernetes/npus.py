"""A simulated node with NPUs that real containers can be given, and plugins on the machine's side of it."""

import http.client
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agent_process import PATIENT, Answer
from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.deployment import ENOUGH_CPU
from tests.programs import script
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.config.settings import environment_name
from accelscope.config.settings import settings_of as declared_settings
from accelscope.deviceplugin.settings import PluginSettings
from accelscope.simulate import SimulatedNode

NULL = os.makedev(1, 3)


def make_device_nodes(node: SimulatedNode) -> None:
    """In the place of the plain files that stand for devices, which a container runtime refuses: nodes of
    /dev/null, which are there on every machine and can do no harm."""
    for path in sorted((node.folder / "dev").rglob("npu*")):
        path.unlink()
        os.mknod(path, 0o666 | stat.S_IFCHR, NULL)


def plugin_settings(node: SimulatedNode) -> dict[str, str]:
    """Those of the device plugin that point it at this node."""
    known = {declared.name for declared in declared_settings(PluginSettings)}
    found = {name: value for name, value in node.agent_settings().items() if name in known}
    del found["pod_resources_socket"]  # the real kubelet is to be asked
    return {**found, **PATIENT}


def on_simulated_npus(node: SimulatedNode, **settings: str) -> dict[str, Any]:
    """`devicePlugin` of the chart's values, for one that finds this node's driver, not the machine's."""
    given = {**plugin_settings(node), "host_dev_root": f"{node.folder}/dev", **settings}
    environment = {environment_name(name): value for name, value in given.items()}
    host = [{"path": str(node.folder)}]
    return {"enabled": True, "env": environment, "hostPaths": host, "resources": ENOUGH_CPU}


def edit(cluster: Cluster, resource: str, namespace: str, scratch: Path, *expressions: str) -> None:
    """`kubectl edit`, with an editor that is quick: sed."""
    lines = scratch / "editor.sed"
    lines.write_text("".join(f"{expression}\n" for expression in expressions))
    editor = script(scratch / "editor", f'exec sed --in-place --file={lines} "$1"')
    environment = {"KUBE_EDITOR": str(editor), "HOME": str(scratch), "PATH": os.defpath}
    words = ["edit", resource, f"--namespace={namespace}", f"--kubeconfig={cluster.kubeconfig}"]
    said = run([binaries.program("kubectl"), *words], environment=environment)
    assert "edited" in said, said


class PluginProcess:
    """`accelscope device-plugin` on the machine, as somebody might start one beside that of the chart."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._port = 0

    def log(self) -> str:
        return self._log.read_text()

    def serves(self) -> bool:
        assert self._process.poll() is None, f"the plugin ended at once:\n{self.log()}"
        for line in self.log().splitlines(keepends=True):
            if line.endswith("\n") and "port" in (event := json.loads(line)):
                self._port = event["port"]
        return self._port != 0

    def get(self, path: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()


@contextmanager
def plugin_process(cluster: Cluster, settings: Mapping[str, str], log: Path) -> Iterator[PluginProcess]:
    given = {
        "exporter_host": "127.0.0.1",
        "exporter_port": "0",
        "plugin_dir": str(cluster.device_plugins_folder),
        "pod_resources_socket": str(cluster.pod_resources_socket),
        **settings,
    }
    command = [sys.executable, "-m", "accelscope", "device-plugin", "--log-format", "json"]
    for name, value in given.items():
        command += [f"--{name.replace('_', '-')}", value]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file)
    try:
        running = PluginProcess(process, log)
        wait_until(running.serves, "the plugin tells its port")
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
