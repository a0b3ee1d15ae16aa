"""The fleet dashboard: capacity, use and health of all clusters.

Graphs use recorded series, so that they stay fast over thousands of nodes. Only tables and rankings of
current values query individual devices."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.monitoring.dashboards.fleet_series import (
    ALLOCATED,
    CHOSEN,
    COUNT,
    HEALTH,
    IDLE,
    MEMORY,
    MEMORY_USED,
    NAMESPACE_ALLOCATED,
    NAMESPACE_IDLE,
    POWER,
    UNHEALTHY,
    USE,
    USE_KNOWN,
    recorded,
)
from tools.monitoring.dashboards.fleet_state import errors, health, power, temperature
from tools.monitoring.dashboards.frame import FLEET, Section, build_dashboard
from tools.monitoring.dashboards.panels import BAD, WARN, Query, lines, number
from tools.monitoring.dashboards.tables import Column, rows
from tools.monitoring.dashboards.variables import CLUSTER, MODEL, VENDOR


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Devices",
                "Devices that agents report, including unresponsive ones.",
                "short",
                f"sum({COUNT})",
                width=3,
            ),
            number(
                "Nodes",
                "Nodes with at least one device.",
                "short",
                f"count(count by (cluster, node) (accelerator_info{{{CHOSEN}}}))",
                width=3,
            ),
            number(
                "Utilisation",
                "Average over the devices that report it.",
                "percentunit",
                f"sum({USE}) / sum({USE_KNOWN})",
                width=3,
            ),
            number(
                "Allocated",
                "Share of the devices that are allocated to pods.",
                "percentunit",
                f"sum({ALLOCATED}) / sum({COUNT})",
                width=3,
            ),
            number(
                "Memory in use",
                "Share of the total memory of all devices.",
                "percentunit",
                f"sum({MEMORY_USED}) / sum({MEMORY})",
                width=3,
            ),
            number("Power", "Total of the devices that report it.", "watt", f"sum({POWER})", width=3),
            number(
                "Unhealthy",
                "Devices with the health warning, critical or lost.",
                "short",
                f"sum({recorded(HEALTH, UNHEALTHY)})",
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Allocated but idle",
                "Sum of the allocated device shares that were not used for an hour.",
                "short",
                f"sum({IDLE})",
                levels=((1, WARN),),
                decimals=1,
                width=3,
            ),
        ],
    )


def use() -> Section:
    return Section(
        "Capacity and use",
        [
            lines(
                "Devices by model",
                "Reported devices. A drop means that a node or an agent is gone.",
                "short",
                Query(f"sum by (vendor, model) ({COUNT})", "{{vendor}} {{model}}"),
                stacked=True,
            ),
            lines(
                "Allocated devices by cluster",
                "Share of each cluster's devices that are allocated to pods.",
                "percentunit",
                Query(f"sum by (cluster) ({ALLOCATED}) / sum by (cluster) ({COUNT})", "{{cluster}}"),
                most=1,
            ),
            lines(
                "Utilisation by model",
                "Average over the devices that report it.",
                "percentunit",
                Query(
                    f"sum by (vendor, model) ({USE}) / sum by (vendor, model) ({USE_KNOWN})",
                    "{{vendor}} {{model}}",
                ),
                most=1,
            ),
            lines(
                "Memory in use by model",
                "Share of the total memory of each model.",
                "percentunit",
                Query(
                    f"sum by (vendor, model) ({MEMORY_USED}) / sum by (vendor, model) ({MEMORY})",
                    "{{vendor}} {{model}}",
                ),
                most=1,
            ),
            rows(
                "Clusters and models",
                "Capacity and current use.",
                {"cluster": "Cluster", "vendor": "Vendor", "model": "Model"},
                Column("Devices", f"sum by (cluster, vendor, model) ({COUNT})", "short"),
                Column("Allocated", f"sum by (cluster, vendor, model) ({ALLOCATED})", "short"),
                Column(
                    "Utilisation",
                    f"sum by (cluster, vendor, model) ({USE}) "
                    f"/ sum by (cluster, vendor, model) ({USE_KNOWN})",
                    "percentunit",
                    most=1,
                ),
                Column(
                    "Memory",
                    f"sum by (cluster, vendor, model) ({MEMORY_USED}) "
                    f"/ sum by (cluster, vendor, model) ({MEMORY})",
                    "percentunit",
                    most=1,
                ),
                Column("Power", f"sum by (cluster, vendor, model) ({POWER})", "watt"),
                Column(
                    "Unhealthy",
                    f"sum by (cluster, vendor, model) ({recorded(HEALTH, UNHEALTHY)})",
                    "short",
                    levels=((1, BAD),),
                ),
                sort="Devices",
            ),
        ],
    )


def namespaces() -> Section:
    return Section(
        "Allocation by namespace",
        [
            lines(
                "Allocated devices by namespace",
                "Devices allocated to pods of the namespace. A shared device counts in each namespace.",
                "short",
                Query(f"sum by (namespace) ({NAMESPACE_ALLOCATED})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Allocated but idle, by namespace",
                "Sum of the device shares that the namespace's pods have not used for an hour.",
                "short",
                Query(f"sum by (namespace) ({NAMESPACE_IDLE})", "{{namespace}}"),
                stacked=True,
            ),
        ],
    )


def build() -> Dashboard:
    return build_dashboard(
        FLEET,
        "Fleet",
        "All accelerators: capacity, use, power, heat, health and errors by cluster, vendor and model.",
        [CLUSTER, VENDOR, MODEL],
        [now(), health(), use(), temperature(), power(), errors(), namespaces()],
    )
