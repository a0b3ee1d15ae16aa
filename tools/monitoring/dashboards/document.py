"""Renders the dashboards as JSON for Grafana."""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.monitoring.dashboards import agents, device, fleet, node, workloads

DASHBOARDS = {
    "fleet": fleet.build,
    "node": node.build,
    "device": device.build,
    "workloads": workloads.build,
    "agents": agents.build,
}


def files() -> dict[str, str]:
    """Name -> text. Raises UnknownName."""
    return {
        f"{name}.json": json.dumps(build(), cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"
        for name, build in DASHBOARDS.items()
    }
