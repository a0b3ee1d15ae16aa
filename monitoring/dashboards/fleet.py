"""Everything at once: what there is, what it does, what is wrong.

Curves are of recorded series, so that they stay quick over thousands of nodes; only tables and rankings of
the present moment read devices singly."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.fleet_series import (
    CHOSEN,
    COUNT,
    HEALTH,
    HELD,
    IDLE,
    MEMORY,
    MEMORY_USED,
    NAMESPACE_HELD,
    NAMESPACE_IDLE,
    POWER,
    UNWELL,
    USE,
    USE_KNOWN,
    recorded,
)
from monitoring.dashboards.fleet_state import errors, health, power, warmth
from monitoring.dashboards.frame import FLEET, Section, made
from monitoring.dashboards.panels import BAD, WARN, Query, lines, number
from monitoring.dashboards.tables import Column, rows
from monitoring.dashboards.variables import CLUSTER, MODEL, VENDOR


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Devices",
                "Devices that agents know of, also those that do not answer.",
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
                "Average over the devices that tell it.",
                "percentunit",
                f"sum({USE}) / sum({USE_KNOWN})",
                width=3,
            ),
            number(
                "Held by pods",
                "Share of the devices that some pod was given.",
                "percentunit",
                f"sum({HELD}) / sum({COUNT})",
                width=3,
            ),
            number(
                "Memory in use",
                "Share of all devices' memory together.",
                "percentunit",
                f"sum({MEMORY_USED}) / sum({MEMORY})",
                width=3,
            ),
            number("Power", "Drawn by the devices that tell it.", "watt", f"sum({POWER})", width=3),
            number(
                "Not well",
                "Devices in the states warning, critical and lost.",
                "short",
                f"sum({recorded(HEALTH, UNWELL)})",
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Held and idle",
                "Shares of devices that their pods have not used for an hour, added up.",
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
                "Known devices. A step down is a node or an agent that is gone.",
                "short",
                Query(f"sum by (vendor, model) ({COUNT})", "{{vendor}} {{model}}"),
                stacked=True,
            ),
            lines(
                "Devices held by pods, by cluster",
                "Share of each cluster's devices that some pod was given.",
                "percentunit",
                Query(f"sum by (cluster) ({HELD}) / sum by (cluster) ({COUNT})", "{{cluster}}"),
                most=1,
            ),
            lines(
                "Utilisation by model",
                "Average over the devices that tell it.",
                "percentunit",
                Query(
                    f"sum by (vendor, model) ({USE}) / sum by (vendor, model) ({USE_KNOWN})",
                    "{{vendor}} {{model}}",
                ),
                most=1,
            ),
            lines(
                "Memory in use by model",
                "Share of the models' memory.",
                "percentunit",
                Query(
                    f"sum by (vendor, model) ({MEMORY_USED}) / sum by (vendor, model) ({MEMORY})",
                    "{{vendor}} {{model}}",
                ),
                most=1,
            ),
            rows(
                "Clusters and models",
                "What there is, and how it is used now.",
                {"cluster": "Cluster", "vendor": "Vendor", "model": "Model"},
                Column("Devices", f"sum by (cluster, vendor, model) ({COUNT})", "short"),
                Column("Held", f"sum by (cluster, vendor, model) ({HELD})", "short"),
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
                    "Not well",
                    f"sum by (cluster, vendor, model) ({recorded(HEALTH, UNWELL)})",
                    "short",
                    levels=((1, BAD),),
                ),
                sort="Devices",
            ),
        ],
    )


def owners() -> Section:
    return Section(
        "Who has them",
        [
            lines(
                "Devices held, by namespace",
                "Devices that pods of the namespace were given. A shared device counts at each.",
                "short",
                Query(f"sum by (namespace) ({NAMESPACE_HELD})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Held and idle, by namespace",
                "Shares of devices that the namespace's pods have not used for an hour, added up.",
                "short",
                Query(f"sum by (namespace) ({NAMESPACE_IDLE})", "{{namespace}}"),
                stacked=True,
            ),
        ],
    )


def build() -> Dashboard:
    return made(
        FLEET,
        "Fleet",
        "All accelerators: capacity, use, power, heat, health and errors by cluster, vendor and model.",
        [CLUSTER, VENDOR, MODEL],
        [now(), health(), use(), warmth(), power(), errors(), owners()],
    )
