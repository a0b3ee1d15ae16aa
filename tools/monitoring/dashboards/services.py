"""Sections on the device plugins and the fleet."""

from tools.monitoring.dashboards.frame import Section
from tools.monitoring.dashboards.panels import BAD, WARN, Query, lines
from tools.monitoring.dashboards.tables import Column, rows


def _of(family: str) -> str:
    return f'{family}{{cluster=~"$cluster"}}'


def plugin() -> Section:
    return Section(
        "Device plugins",
        [
            lines(
                "Registered",
                "Plugins registered with their kubelet, and all plugins.",
                "short",
                Query(f"sum({_of('accelscope_device_plugin_registered')})", "registered"),
                Query(f"count({_of('accelscope_device_plugin_info')})", "all"),
                width=8,
            ),
            lines(
                "Devices",
                "By the state reported to the kubelet, and devices that are not offered.",
                "short",
                Query(f"sum by (state) ({_of('accelscope_device_plugin_devices')})", "{{state}}"),
                stacked=True,
                width=8,
            ),
            lines(
                "Allocations",
                "Per hour: granted, and refused by reason.",
                "short",
                Query(f"sum(increase({_of('accelscope_device_plugin_allocations_total')}[1h]))", "granted"),
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
        "Fleet",
        [
            lines(
                "Nodes by state",
                "All clusters that the fleet reads.",
                "short",
                Query("sum by (state) (accelscope_fleet_nodes)", "{{state}}"),
                stacked=True,
                width=8,
            ),
            rows(
                "Clusters",
                "State of each cluster as reported by the fleet.",
                {"cluster": "Cluster"},
                Column("Reachable", "max by (cluster) (accelscope_fleet_cluster_up)", "short"),
                Column(
                    "Last success",
                    "time() - max by (cluster) (accelscope_fleet_cluster_last_success_timestamp_seconds)",
                    "s",
                    levels=((60, WARN), (300, BAD)),
                ),
                Column("Nodes", "sum by (cluster) (accelscope_fleet_nodes)", "short"),
                Column("Devices", "sum by (cluster) (accelscope_fleet_devices)", "short"),
                Column(
                    "Refresh duration",
                    "max by (cluster) (accelscope_fleet_source_refresh_duration_seconds)",
                    "s",
                ),
                width=16,
            ),
            lines(
                "Requests",
                "Per second, by status.",
                "reqps",
                Query("sum by (status) (rate(accelscope_fleet_http_requests_total[5m]))", "{{status}}"),
                width=8,
            ),
            lines(
                "Response time",
                "Average of the routes with the longest total time.",
                "s",
                Query(
                    "topk(8, sum by (route) (rate(accelscope_fleet_http_request_seconds_total[5m])) "
                    "/ sum by (route) (rate(accelscope_fleet_http_requests_total[5m]) > 0))",
                    "{{route}}",
                ),
                width=8,
            ),
            lines(
                "Source errors",
                "Failed refreshes and nodes that did not respond, per second, by cluster, source and reason.",
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
                "CPUs used, and the last delay of the event loop in seconds.",
                "short",
                Query("sum(rate(accelscope_fleet_cpu_seconds_total[5m]))", "CPUs"),
                Query("max(accelscope_fleet_loop_lag_seconds)", "lag in seconds"),
                width=8,
            ),
            lines(
                "Streams",
                "Open live streams and active requests.",
                "short",
                Query("sum(accelscope_fleet_streams)", "streams"),
                Query("sum(accelscope_fleet_http_requests_active)", "requests"),
                width=8,
            ),
        ],
    )
