"""How the devices of a fleet are: health, heat, errors, power."""

from monitoring.dashboards.fleet_series import (
    CHOSEN,
    DEVICE_LABELS,
    DEVICE_LINK,
    HEALTH,
    HELD,
    IDLE,
    IDLE_POWER,
    LABELS,
    NODE_LINK,
    NOT_OK,
    POD_POWER,
    POWER,
    POWER_LIMIT,
    THROTTLED,
    UNWELL_NOW,
    kilowatt_hours,
    per_node,
    recorded,
)
from monitoring.dashboards.frame import NODE, Section
from monitoring.dashboards.panels import BAD, WARN, Query, amount, heat, lines, ranking
from monitoring.dashboards.tables import Column, alerts, rows
from monitoring.dashboards.variables import label, to
from monitoring.promql import with_model


def health() -> Section:
    return Section(
        "Health",
        [
            lines(
                "Devices that are not well, by state",
                "lost: fell off the bus. critical: must be reset, drained or replaced. warning: works with "
                "something wrong. unknown: nobody tells.",
                "short",
                Query(f"sum by (state) ({recorded(HEALTH, NOT_OK)})", "{{state}}"),
                stacked=True,
            ),
            lines(
                "Devices slowed down, by reason",
                (
                    "Being idle and application settings are left out. Held at a power limit "
                    "is usual; heat and power brakes are not."
                ),
                "short",
                Query(
                    f"sum by (reason) ({THROTTLED})",
                    "{{reason}}",
                ),
                stacked=True,
            ),
            rows(
                "Devices that are not well now",
                "1: the device is in this state.",
                LABELS | {"state": "State"},
                Column(
                    "Is",
                    f"max by ({DEVICE_LABELS}, state) ({with_model(UNWELL_NOW, CHOSEN)})",
                    "short",
                ),
                links={"node": NODE_LINK, "device": DEVICE_LINK},
                width=16,
            ),
            alerts(
                "That fire now or soon will, by the rules that come with these dashboards.",
                'alertname=~"Accel.+", cluster=~"$cluster"',
                width=8,
            ),
        ],
    )


def warmth() -> Section:
    return Section(
        "Heat",
        [
            heat(
                "Temperature",
                "How many devices are how warm, at their main sensor.",
                "celsius",
                f"sum by (le) ({recorded('cluster_vendor_model:accelerator_temperature_celsius:bucket')})",
                width=8,
            ),
            lines(
                "Hottest device by model",
                "At the main sensor.",
                "celsius",
                Query(
                    "max by (vendor, model) "
                    f"({recorded('cluster_vendor_model:accelerator_temperature_celsius:max')})",
                    "{{vendor}} {{model}}",
                ),
                width=8,
            ),
            ranking(
                "Hottest nodes now",
                "By their hottest device.",
                "celsius",
                Query(
                    f"topk(10, {per_node('max', 'accelerator_temperature_celsius')})", "{{cluster}} {{node}}"
                ),
                levels=((75, WARN), (90, BAD)),
                links=[to(NODE, "Node", cluster=label("cluster"), node=label("node"))],
                width=8,
            ),
        ],
    )


def errors() -> Section:
    return Section(
        "Errors",
        [
            lines(
                "Memory errors in an hour",
                "By the severity that the device gave them, over the hour before.",
                "short",
                Query(
                    "sum by (vendor, severity) "
                    f"({recorded('cluster_vendor_model_severity:accelerator_ecc_errors:increase1h')})",
                    "{{vendor}} {{severity}}",
                ),
            ),
            lines(
                "Errors reported by drivers in an hour",
                "XID, RAS, AXI, PCIe ... over the hour before.",
                "short",
                Query(
                    "sum by (vendor, kind) "
                    f"({recorded('cluster_vendor_model_kind:accelerator_errors:increase1h')})",
                    "{{vendor}} {{kind}}",
                ),
            ),
        ],
    )


def power() -> Section:
    return Section(
        "Power and energy",
        [
            lines(
                "Power by cluster",
                "Drawn by the devices that tell it.",
                "watt",
                Query(f"sum by (cluster) ({POWER})", "{{cluster}}"),
                stacked=True,
                width=8,
            ),
            lines(
                "Power by model, as a share of its limit",
                "Near 1: the devices are held back by their power limit.",
                "percentunit",
                Query(
                    f"sum by (vendor, model) ({POWER} and {POWER_LIMIT}) "
                    f"/ sum by (vendor, model) ({POWER_LIMIT})",
                    "{{vendor}} {{model}}",
                ),
                width=8,
            ),
            lines(
                "Where the power goes",
                "Energy that pods' use accounts for, by namespace, and what no pod's use does.",
                "watt",
                Query(f"sum by (namespace) ({POD_POWER})", "{{namespace}}"),
                Query(f"sum({IDLE_POWER})", "no pod's use"),
                stacked=True,
                width=8,
            ),
            amount(
                "Energy of pods",
                "In the time that is looked at: what pods' use of devices accounts for.",
                "kwatth",
                kilowatt_hours(f"sum({POD_POWER})"),
                width=6,
            ),
            amount(
                "Energy of nobody",
                "In the time that is looked at: what devices drew while no pod used them.",
                "kwatth",
                kilowatt_hours(f"sum({IDLE_POWER})"),
                width=6,
            ),
            amount(
                "Wasted device-hours",
                (
                    "In the time that is looked at: hours in which pods held shares of devices that they had "
                    "not used for an hour or longer, each times its share."
                ),
                "h",
                f"sum(sum_over_time((sum({IDLE}))[$__range:1m])) / 60",
                width=6,
            ),
            amount(
                "Held device-hours",
                "In the time that is looked at: hours for which devices were given to pods.",
                "h",
                f"sum(sum_over_time((sum({HELD}))[$__range:1m])) / 60",
                width=6,
            ),
        ],
    )
