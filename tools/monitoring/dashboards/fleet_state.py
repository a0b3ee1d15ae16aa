"""Sections of the fleet dashboard: health, temperature, errors, power."""

from tools.monitoring.dashboards.fleet_series import (
    ALLOCATED,
    CAUSES_NOW,
    CHOSEN,
    DEVICE_LABELS,
    DEVICE_LINK,
    HEALTH,
    IDLE,
    IDLE_POWER,
    LABELS,
    NODE_LINK,
    NOT_OK,
    POD_POWER,
    POWER,
    POWER_LIMIT,
    RAW,
    THROTTLED,
    kilowatt_hours,
    per_node,
    recorded,
)
from tools.monitoring.dashboards.frame import NODE, Section
from tools.monitoring.dashboards.panels import BAD, WARN, Query, amount, heat, lines, ranking
from tools.monitoring.dashboards.tables import Column, alerts, rows
from tools.monitoring.dashboards.variables import label, to
from tools.monitoring.promql import with_model

_CORRECTED = "sum by (cluster, node) ({})".format(
    with_model(f'increase(accelerator_ecc_errors_total{{{RAW}, severity="corrected"}}[1h])', CHOSEN)
)


def health() -> Section:
    return Section(
        "Health",
        [
            lines(
                "Unhealthy devices by state",
                "lost: fell off the bus. critical: needs a reset, a drain or a replacement. warning: works "
                "with a problem. unknown: not reported.",
                "short",
                Query(f"sum by (state) ({recorded(HEALTH, NOT_OK)})", "{{state}}"),
                stacked=True,
            ),
            lines(
                "Throttled devices by reason",
                (
                    "Without idle clocks and application settings. Throttling at the power limit is normal; "
                    "heat and power brakes are not."
                ),
                "short",
                Query(
                    f"sum by (reason) ({THROTTLED})",
                    "{{reason}}",
                ),
                stacked=True,
            ),
            rows(
                "Unhealthy devices now",
                (
                    "Devices whose health is not ok, which are hot, or which have fewer links or PCIe lanes "
                    "than before or than others, with the cause."
                ),
                LABELS | {"state": "State", "cause": "Cause", "reason": "Reason"},
                Column("Is", f"max by ({DEVICE_LABELS}, state, cause, reason) ({CAUSES_NOW})", "short"),
                links={"node": NODE_LINK, "device": DEVICE_LINK},
                width=16,
            ),
            alerts(
                "Firing and pending alerts of the shipped rules.",
                'alertname=~"Accel.+", cluster=~"$cluster"',
                width=8,
            ),
        ],
    )


def temperature() -> Section:
    return Section(
        "Temperature",
        [
            heat(
                "Temperature",
                "Number of devices by temperature of the main sensor.",
                "celsius",
                f"sum by (le) ({recorded('cluster_vendor_model:accelerator_temperature_celsius:bucket')})",
                width=8,
            ),
            lines(
                "Hottest device by model",
                "Main sensor.",
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
                "By severity, over the previous hour.",
                "short",
                Query(
                    "sum by (vendor, severity) "
                    f"({recorded('cluster_vendor_model_severity:accelerator_ecc_errors:increase1h')})",
                    "{{vendor}} {{severity}}",
                ),
                width=8,
            ),
            ranking(
                "Nodes with most corrected memory errors",
                "In the last hour. Results are correct, but part of the memory may be failing.",
                "short",
                Query(f"topk(10, {_CORRECTED} > 0)", "{{cluster}} {{node}}"),
                levels=((100, WARN),),
                links=[to(NODE, "Node", cluster=label("cluster"), node=label("node"))],
                width=8,
            ),
            lines(
                "Errors reported by drivers in an hour",
                "XID, RAS, AXI, PCIe and others, over the previous hour.",
                "short",
                Query(
                    "sum by (vendor, kind) "
                    f"({recorded('cluster_vendor_model_kind:accelerator_errors:increase1h')})",
                    "{{vendor}} {{kind}}",
                ),
                width=8,
            ),
        ],
    )


def power() -> Section:
    return Section(
        "Power and energy",
        [
            lines(
                "Power by cluster",
                "Total of the devices that report it.",
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
                "Power by namespace",
                "Power attributed to pods by namespace, and power that is not attributed to a pod.",
                "watt",
                Query(f"sum by (namespace) ({POD_POWER})", "{{namespace}}"),
                Query(f"sum({IDLE_POWER})", "unattributed"),
                stacked=True,
                width=8,
            ),
            amount(
                "Attributed energy",
                "Energy attributed to pods in the selected time range.",
                "kwatth",
                kilowatt_hours(f"sum({POD_POWER})"),
                width=6,
            ),
            amount(
                "Idle energy",
                "Energy that devices used while no pod used them, in the selected time range.",
                "kwatth",
                kilowatt_hours(f"sum({IDLE_POWER})"),
                width=6,
            ),
            amount(
                "Idle device-hours",
                (
                    "Hours in the selected time range in which allocated device shares had not been used "
                    "for an hour or longer, weighted by share."
                ),
                "h",
                f"sum(sum_over_time((sum({IDLE}))[$__range:1m])) / 60",
                width=6,
            ),
            amount(
                "Allocated device-hours",
                "Hours in the selected time range in which devices were allocated to pods.",
                "h",
                f"sum(sum_over_time((sum({ALLOCATED}))[$__range:1m])) / 60",
                width=6,
            ),
        ],
    )
