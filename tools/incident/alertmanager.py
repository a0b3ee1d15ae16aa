"""Alertmanager with the chart's example configuration, and receivers that can be read."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy/chart/examples/alertmanager.yaml"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+)([smhd])")


def program() -> str | None:
    """Debian's name, or that of others."""
    return shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


def accelerated(duration: str, factor: int) -> str:
    """A Prometheus duration, divided by the factor; at least a second if it is not 0."""
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(duration))
    return f"{max(1, round(seconds / factor)) if seconds else 0}s"


def configuration(url: str, factor: int = 1) -> dict[str, Any]:
    """The example; notifications are sent to `url`/NAME, and waiting times are divided by `factor`."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    document["receivers"] = [
        {"name": each["name"], "webhook_configs": [{"url": f"{url}/{each['name']}"}]}
        for each in document["receivers"]
    ]
    routes = [document["route"]]
    for route in routes:
        for name in ("group_wait", "group_interval"):
            if name in route:
                route[name] = accelerated(route[name], factor)
        routes.extend(route.get("routes", ()))
    return document


def command(folder: Path, port: int) -> list[str]:
    """For the configuration in `folder`/alertmanager.yaml."""
    found = program()
    assert found is not None, "scripts/setup --need alertmanager installs it"
    return [
        found,
        f"--config.file={folder / 'alertmanager.yaml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
