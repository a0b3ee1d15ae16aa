"""Alerts about the device plugin and the fleet."""

from tools.monitoring.promql import last, of_node
from tools.monitoring.rules.agent_alerts import WHERE_SCRAPED, counted_within, down
from tools.monitoring.rules.rule import IN_CLUSTER, WHERE, Alert, Group, Severity

_PLUGIN = "accelscope_device_plugin_info"


def _of_plugin(expression: str, labels: str = "") -> str:
    """By node, so that another pod of the node continues the alert."""
    of_resource = of_node(expression, "node, resource", _PLUGIN)
    return f"max by (cluster, node, resource{labels}) ({of_resource})"


DEVICE_PLUGIN = Group(
    "accelscope-device-plugin.alerts",
    (
        Alert(
            name="AccelScopeDevicePluginDown",
            severity=Severity.WARNING,
            lasting="10m",
            expression=down(_PLUGIN),
            summary=f"The device plugin {WHERE_SCRAPED} is down",
            description=(
                "Prometheus cannot scrape it (job {{ $labels.job }}). New pods on that node get no devices; "
                "running pods keep theirs.\n"
                "First action: Read the log of the device plugin's pod on that node"
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeDevicePluginNotRegistered",
            severity=Severity.WARNING,
            lasting="10m",
            expression=_of_plugin(f"({last('accelscope_device_plugin_registered')} == 0)"),
            summary=f"{WHERE}: does not offer {{{{ $labels.resource }}}}",
            description=(
                "The device plugin is not registered with the kubelet: pods that request "
                "{{ $labels.resource }} do not start there.\n"
                "First action: Read the logs of device plugin and kubelet on that node"
            ),
        ),
        Alert(
            name="AccelScopeDevicePluginAllocationsRefused",
            severity=Severity.WARNING,
            lasting="0m",
            expression=_of_plugin(
                counted_within("accelscope_device_plugin_allocation_errors_total", "", "15m"), ", reason"
            ),
            summary=f"{WHERE}: allocation of {{{{ $labels.resource }}}} failed: {{{{ $labels.reason }}}}",
            description=(
                "{{ $value | humanize }} allocations failed in the last 15 minutes. Their pods do not "
                "start.\n"
                "First action: Describe a pod that does not start with kubectl; delete it, so that it is "
                "rescheduled"
            ),
            thresholds=("15m",),
        ),
    ),
)

FLEET = Group(
    "accelscope-fleet.alerts",
    (
        Alert(
            name="AccelScopeFleetDown",
            severity=Severity.WARNING,
            lasting="10m",
            expression=down("accelscope_fleet_build_info"),
            summary=f"The fleet{IN_CLUSTER} is down",
            description=(
                "Prometheus cannot scrape it (job {{ $labels.job }}). Its API and web page are probably "
                "unavailable; agents and these alerts are not affected.\n"
                "First action: Read the log of the fleet's pod"
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeFleetClusterUnreachable",
            severity=Severity.WARNING,
            lasting="10m",
            expression=f"max by (cluster) ({last('accelscope_fleet_cluster_up')}) == 0",
            summary="The fleet cannot reach cluster {{ $labels.cluster }}",
            description=(
                "It shows the last known data of cluster {{ $labels.cluster }}.\n"
                "First action: See /api/v1/clusters of the fleet for the reason"
            ),
        ),
        Alert(
            name="AccelScopeFleetSourceFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression=(
                f"(max by (cluster, source) ({last('accelscope_fleet_source_up')}) == 0) unless on (cluster) "
                f"(max by (cluster) ({last('accelscope_fleet_cluster_up')}) == 0)"
            ),
            summary="Source {{ $labels.source }} of cluster {{ $labels.cluster }} fails",
            description=(
                "The fleet reaches cluster {{ $labels.cluster }}, but its source {{ $labels.source }} "
                "returns no data.\n"
                "First action: See accelscope_fleet_source_errors_total for the reason"
            ),
        ),
    ),
)
