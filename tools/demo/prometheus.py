"""The demo's Prometheus, which scrapes every agent through its API server's pod proxy."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.demo.targets import targets_file

_RULES = Path(__file__).resolve().parents[2] / "deploy/chart/rules"


def rule_files() -> list[str]:
    """Recording and alert rules of this repository."""
    return sorted(map(str, _RULES.glob("*.yaml")))


def configuration(
    folder: Path, clusters: Iterable[Mapping[str, Any]], *, fleet_port: int, interval_seconds: int
) -> dict[str, Any]:
    """`clusters` are entries of the file that `accelscope fleet` reads; `folder` has the targets."""
    interval = f"{interval_seconds}s"
    return {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": rule_files(),
        "scrape_configs": [
            *(_agents_of(cluster, folder) for cluster in clusters),
            {
                "job_name": "accelscope-fleet",
                "static_configs": [{"targets": [f"127.0.0.1:{fleet_port}"]}],
            },
        ],
    }


def _agents_of(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """As deploy/chart/examples/scrape-config.yaml has it, with the cluster's name and the way through the
    proxy."""
    cluster, server = entry["id"], entry["server"]
    return {
        "job_name": f"agents of {cluster}",
        "honor_labels": True,
        "authorization": {"credentials_file": server["tokenFile"]},
        "file_sd_configs": [{"files": [str(targets_file(folder, cluster))]}],
        "relabel_configs": [
            {
                "source_labels": ["__meta_kubernetes_pod_container_port_name"],
                "regex": "metrics",
                "action": "keep",
            },
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
            {"target_label": "cluster", "replacement": cluster},
            {"target_label": "job", "replacement": "accelscope"},
            {"source_labels": ["__address__"], "target_label": "instance"},
            {
                "source_labels": [
                    "__meta_kubernetes_namespace",
                    "__meta_kubernetes_pod_name",
                    "__meta_kubernetes_pod_container_port_number",
                ],
                "regex": "(.+);(.+);(.+)",
                "target_label": "__metrics_path__",
                "replacement": "/api/v1/namespaces/$1/pods/$2:$3/proxy/metrics",
            },
            {"target_label": "__address__", "replacement": urlsplit(server["url"]).netloc},
        ],
    }


def command(folder: Path, port: int) -> list[str]:
    return [
        "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--storage.tsdb.retention.time=6h",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
