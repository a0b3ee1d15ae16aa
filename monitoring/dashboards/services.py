"""Sections about the device plugins and the fleet."""

from monitoring.dashboards.frame import Section
from monitoring.dashboards.panels import BAD, WARN, Query, lines
from monitoring.dashboards.tables import Column, rows


def _of(family: str) -> str:
    return f'{family}{{cluster=~"$cluster"}}'


def plugin() -> Section:
    return Section(
        "Device plugins",
        [
            lines(
                "Registered",
                "Plugins that the kubelet took, and all.",
                "short",
                Query(f"sum({_of('accelscope_device_plugin_registered')})", "registered"),
                Query(f"count({_of('accelscope_device_plugin_info')})", "all"),
                width=8,
            ),
            lines(
                "Devices",
                "By what kubelets are told of them, and those that are not offered.",
                "short",
                Query(f"sum by (state) ({_of('accelscope_device_plugin_devices')})", "{{state}}"),
                stacked=True,
                width=8,
            ),
            lines(
                "Allocations",
                "In an hour: answered, and refused by reason.",
                "short",
                Query(f"sum(increase({_of('accelscope_device_plugin_allocations_total')}[1h]))", "answered"),
                Query(
                    (
                        "sum by (reason) "
                        f"(increase({_of('accelscope_device_plugin_allocation_errors_total')}[1h]))"
                    ),
                    "{{reason}}",
                ),
                width=8,
            ),
        ],
    )


def fleet() -> Section:
    return Section(
        "The fleet",
        [
            lines(
                "Nodes by state",
                "Of all clusters that the fleet reads.",
                "short",
                Query("sum by (state) (accelscope_fleet_nodes)", "{{state}}"),
                stacked=True,
                width=8,
            ),
            rows(
                "Clusters",
                "As the fleet sees them.",
                {"cluster": "Cluster"},
                Column("Reached", "max by (cluster) (accelscope_fleet_cluster_up)", "short"),
                Column(
                    "Last answer",
                    "time() - max by (cluster) (accelscope_fleet_cluster_last_success_timestamp_seconds)",
                    "s",
                    levels=((60, WARN), (300, BAD)),
                ),
                Column("Nodes", "sum by (cluster) (accelscope_fleet_nodes)", "short"),
                Column("Devices", "sum by (cluster) (accelscope_fleet_devices)", "short"),
                Column("Round", "max by (cluster) (accelscope_fleet_source_refresh_duration_seconds)", "s"),
                width=16,
            ),
            lines(
                "Requests",
                "A second, by status.",
                "reqps",
                Query("sum by (status) (rate(accelscope_fleet_http_requests_total[5m]))", "{{status}}"),
                width=8,
            ),
            lines(
                "Time of answers",
                "Average by route, of those that take most in all.",
                "s",
                Query(
                    "topk(8, sum by (route) (rate(accelscope_fleet_http_request_seconds_total[5m])) "
                    "/ sum by (route) (rate(accelscope_fleet_http_requests_total[5m]) > 0))",
                    "{{route}}",
                ),
                width=8,
            ),
            lines(
                "Errors of sources",
                "Rounds that failed and nodes that did not answer, a second, by cluster, source and reason.",
                "cps",
                Query(
                    "sum by (cluster, source, reason) (rate(accelscope_fleet_source_errors_total[5m]))",
                    "{{cluster}} {{source}} {{reason}}",
                ),
                width=8,
            ),
            lines(
                "Memory",
                "Resident memory of the fleet.",
                "bytes",
                Query("max(accelscope_fleet_resident_memory_bytes)", "resident"),
                width=8,
            ),
            lines(
                "CPU and lag",
                "CPUs in use, and by how many seconds the event loop last came late.",
                "short",
                Query("sum(rate(accelscope_fleet_cpu_seconds_total[5m]))", "CPUs"),
                Query("max(accelscope_fleet_loop_lag_seconds)", "lag in seconds"),
                width=8,
            ),
            lines(
                "Streams",
                "Live streams that are open, and requests that are being answered.",
                "short",
                Query("sum(accelscope_fleet_streams)", "streams"),
                Query("sum(accelscope_fleet_http_requests_active)", "requests"),
                width=8,
            ),
        ],
    )
