"""Targets of Prometheus as files, because Debian builds it without Kubernetes discovery. The labels are those
of the discovery, so that the same relabelling applies."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_AGENTS = ",".join(
    f"app.kubernetes.io/{name}={value}"
    for name, value in (("name", "accelscope"), ("instance", "accelscope"), ("component", "agent"))
)
_PODS = f"/api/v1/namespaces/accelscope-system/pods?labelSelector={urllib.parse.quote(_AGENTS)}"
_SECONDS = 3.0  # that an API server may take


def targets_file(folder: Path, cluster: str) -> Path:
    return folder / "targets" / f"{cluster}.json"


class Targets:
    """`clusters` are entries of the file that `accelscope fleet` reads."""

    def __init__(self, folder: Path, clusters: Iterable[Mapping[str, Any]]) -> None:
        self._files = {
            cluster["id"]: (targets_file(folder, cluster["id"]), cluster["server"]) for cluster in clusters
        }
        (folder / "targets").mkdir(exist_ok=True)

    def write(self) -> None:
        """Targets of a cluster that does not answer stay."""
        for file, server in self._files.values():
            try:
                pods = _pods(server)
            except (urllib.error.URLError, OSError, ValueError):
                continue
            text = json.dumps([group for pod in pods for group in groups(pod)], indent=1)
            if not file.exists() or file.read_text() != text:
                scratch = file.with_suffix(".new")
                scratch.write_text(text)
                scratch.replace(file)


def _pods(server: Mapping[str, str]) -> list[Any]:
    token = Path(server["tokenFile"]).read_text()
    request = urllib.request.Request(server["url"] + _PODS, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        return list(json.load(answer)["items"])


def groups(pod: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """One for each port of the pod's containers."""
    address = pod["status"]["podIP"]
    for container in pod["spec"]["containers"]:
        for port in container["ports"]:
            meta = {
                "namespace": pod["metadata"]["namespace"],
                "pod_name": pod["metadata"]["name"],
                "pod_node_name": pod["spec"]["nodeName"],
                "pod_container_port_name": port["name"],
                "pod_container_port_number": str(port["containerPort"]),
            }
            yield {
                "targets": [f"{address}:{port['containerPort']}"],
                "labels": {f"__meta_kubernetes_{name}": value for name, value in meta.items()},
            }
