"""Alerts about the device plugin and the fleet."""

from monitoring.promql import OF_TARGET
from monitoring.rules.agent_alerts import WHERE_SCRAPED, down, newly_counted
from monitoring.rules.rule import Alert, Group, Severity


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
            summary=f"The device plugin {WHERE_SCRAPED} does not answer",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}). Without its "
                "plugin a node gives no devices to new pods."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeDevicePluginNotRegistered",
            severity=Severity.CRITICAL,
            lasting="5m",
            expression=_of_plugin("(accelscope_device_plugin_registered == 0)"),
            summary="{{ $labels.resource }} of {{ $labels.node }} is not offered",
            description=(
                "The kubelet of {{ $labels.node }} has not taken the plugin's registration: pods that ask "
                "for {{ $labels.resource }} do not start there."
            ),
        ),
        Alert(
            name="AccelScopeDevicePluginDevicesUnhealthy",
            severity=Severity.WARNING,
            lasting="5m",
            expression=_of_plugin('(accelscope_device_plugin_devices{state="unhealthy"} > 0)'),
            summary="{{ $labels.node }} does not give out all of its {{ $labels.resource }}",
            description="Devices that the kubelet of {{ $labels.node }} is told are unhealthy: {{ $value }}.",
            thresholds=("0",),
        ),
        Alert(
            name="AccelScopeDevicePluginAllocationsRefused",
            severity=Severity.WARNING,
            lasting="0m",
            expression=_of_plugin(
                newly_counted("accelscope_device_plugin_allocation_errors_total", "", "15m")
            ),
            summary="Pods on {{ $labels.node }} were refused {{ $labels.resource }}: {{ $labels.reason }}",
            description=(
                "Allocations on {{ $labels.node }} that failed in the last 15 minutes: "
                "{{ $value | humanize }}. Their pods do not start."
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
            summary="The fleet at {{ $labels.instance }} does not answer",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}): its API and its "
                "page are probably gone too."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeFleetClusterUnreachable",
            severity=Severity.WARNING,
            lasting="5m",
            expression="accelscope_fleet_cluster_up == 0",
            summary="The fleet does not reach cluster {{ $labels.cluster }}",
            description="What is shown of cluster {{ $labels.cluster }} is what was last seen.",
        ),
        Alert(
            name="AccelScopeFleetSourceFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression="(accelscope_fleet_source_up == 0) unless on (job, instance, cluster) "
            "(accelscope_fleet_cluster_up == 0)",
            summary="Source {{ $labels.source }} of cluster {{ $labels.cluster }} fails",
            description=(
                "The fleet reaches cluster {{ $labels.cluster }}, and its source {{ $labels.source }} "
                "tells nothing."
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
                "been read lately, or never."
            ),
            thresholds=("0.1",),
        ),
        Alert(
            name="AccelScopeFleetNodesIncompatible",
            severity=Severity.INFO,
            lasting="15m",
            expression='accelscope_fleet_nodes{state="incompatible"} > 0',
            summary="Agents of cluster {{ $labels.cluster }} are too new or too old for the fleet",
            description=(
                "Nodes of cluster {{ $labels.cluster }} whose snapshots have a version that the fleet does "
                "not read: {{ $value }}."
            ),
            thresholds=("0",),
        ),
    ),
)
