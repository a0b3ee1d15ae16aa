"""Alerts about the device plugin and the fleet."""

from tools.monitoring.promql import OF_TARGET
from tools.monitoring.rules.agent_alerts import WHERE_SCRAPED, counted_within, down
from tools.monitoring.rules.rule import Alert, Group, Severity


def _of_plugin(expression: str) -> str:
    return f"{expression} * {OF_TARGET} group_left (node, resource) accelscope_device_plugin_info"


DEVICE_PLUGIN = Group(
    "accelscope-device-plugin.alerts",
    (
        Alert(
            name="AccelScopeDevicePluginDown",
            severity=Severity.CRITICAL,
            lasting="5m",
            expression=down("accelscope_device_plugin_info"),
            summary=f"The device plugin {WHERE_SCRAPED} is down",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}). Without the "
                "plugin, new pods on that node get no devices."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeDevicePluginNotRegistered",
            severity=Severity.CRITICAL,
            lasting="5m",
            expression=_of_plugin("(accelscope_device_plugin_registered == 0)"),
            summary="{{ $labels.node }} does not offer {{ $labels.resource }}",
            description=(
                "The device plugin is not registered with the kubelet of {{ $labels.node }}: pods that "
                "request {{ $labels.resource }} do not start there."
            ),
        ),
        Alert(
            name="AccelScopeDevicePluginDevicesUnhealthy",
            severity=Severity.WARNING,
            lasting="5m",
            expression=_of_plugin('(accelscope_device_plugin_devices{state="unhealthy"} > 0)'),
            summary="Some {{ $labels.resource }} devices of {{ $labels.node }} are not allocatable",
            description="Devices reported to the kubelet of {{ $labels.node }} as unhealthy: {{ $value }}.",
            thresholds=("0",),
        ),
        Alert(
            name="AccelScopeDevicePluginAllocationsRefused",
            severity=Severity.WARNING,
            lasting="0m",
            expression=_of_plugin(
                counted_within("accelscope_device_plugin_allocation_errors_total", "", "15m")
            ),
            summary="Allocation of {{ $labels.resource }} failed on {{ $labels.node }}: {{ $labels.reason }}",
            description=(
                "{{ $value | humanize }} allocations on {{ $labels.node }} failed in the last 15 minutes. "
                "Their pods do not start."
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
            severity=Severity.CRITICAL,
            lasting="5m",
            expression=down("accelscope_fleet_build_info"),
            summary="The fleet at {{ $labels.instance }} is down",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}). Its API and web "
                "page are probably unavailable too."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeFleetClusterUnreachable",
            severity=Severity.WARNING,
            lasting="5m",
            expression="accelscope_fleet_cluster_up == 0",
            summary="The fleet cannot reach cluster {{ $labels.cluster }}",
            description="The fleet shows the last known data of cluster {{ $labels.cluster }}.",
        ),
        Alert(
            name="AccelScopeFleetSourceFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression="(accelscope_fleet_source_up == 0) unless on (job, instance, cluster) "
            "(accelscope_fleet_cluster_up == 0)",
            summary="Source {{ $labels.source }} of cluster {{ $labels.cluster }} fails",
            description=(
                "The fleet reaches cluster {{ $labels.cluster }}, but its source {{ $labels.source }} "
                "returns no data."
            ),
        ),
        Alert(
            name="AccelScopeFleetNodesStale",
            severity=Severity.WARNING,
            lasting="10m",
            expression='sum by (job, instance, cluster) (accelscope_fleet_nodes{state=~"stale|unread"}) '
            "/ sum by (job, instance, cluster) (accelscope_fleet_nodes) > 0.1",
            summary="Many nodes of cluster {{ $labels.cluster }} are stale",
            description=(
                "{{ $value | humanizePercentage }} of the nodes of cluster {{ $labels.cluster }} have not "
                "been read recently, or never."
            ),
            thresholds=("0.1",),
        ),
        Alert(
            name="AccelScopeFleetNodesIncompatible",
            severity=Severity.INFO,
            lasting="15m",
            expression='accelscope_fleet_nodes{state="incompatible"} > 0',
            summary="Agents of cluster {{ $labels.cluster }} have versions that the fleet does not support",
            description=(
                "Nodes of cluster {{ $labels.cluster }} with an unsupported snapshot version: {{ $value }}."
            ),
            thresholds=("0",),
        ),
    ),
)
