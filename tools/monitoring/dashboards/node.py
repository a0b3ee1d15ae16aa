"""The node dashboard: devices, workloads and agent of one node."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.monitoring.dashboards.frame import DEVICE, NODE, WORKLOADS, Section, build_dashboard
from tools.monitoring.dashboards.panels import BAD, WARN, Panel, Query, lines, number, states
from tools.monitoring.dashboards.tables import Column, alerts, rows
from tools.monitoring.dashboards.variables import ONE_CLUSTER, SAME_CLUSTER, cell, instances, label, one, to
from tools.monitoring.dashboards.vocabulary import (
    FULL,
    HEALTH_STATES,
    TROUBLING,
    UP_DOWN,
    WARM,
    YES_NO,
    health_number,
    pcie_rate,
)
from tools.monitoring.promql import with_model
from tools.monitoring.rules.recording import CAUSES

_HERE = 'cluster="$cluster", instance=~"$instance"'
_NODE = 'cluster="$cluster", node="$node"'
_REAL_ERRORS = ', code!~".+_done"'
_NAME = "{{vendor}} {{index}}"
_ON_NODE = {"cluster": SAME_CLUSTER, "node": "${node}"}
_TO_DEVICE = to(DEVICE, "Device", **_ON_NODE, device=label("device"))
_DEVICE = {"vendor": "Vendor", "index": "Index", "model": "Model", "device": "Device"}
_POD = {"namespace": "Namespace", "pod": "Pod", "container": "Container"}


def _of(family: str, matchers: str = "") -> str:
    return f"{family}{{{_HERE}{matchers}}}"


def _by_device(expression: str) -> str:
    """For tables: aggregate to the labels of a row."""
    return f"max by (vendor, index, model, device) ({with_model(f'({expression})', _HERE)})"


def _by_container(family: str) -> str:
    return f"sum by (namespace, pod, container) ({_of(family)})"


def _curves(title: str, about: str, unit: str, expression: str, most: float | None = None) -> Panel:
    return lines(title, about, unit, Query(expression, _NAME), most=most, links=[_TO_DEVICE])


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Devices",
                "Devices that the agent reports, including unresponsive ones.",
                "short",
                f"count({_of('accelerator_info')})",
            ),
            number(
                "Utilisation",
                "Average over the devices that report it.",
                "percentunit",
                f"avg({_of('accelerator_utilization_ratio')})",
            ),
            number(
                "Memory in use",
                "Share of the total memory of all devices.",
                "percentunit",
                f"sum({_of('accelerator_memory_used_bytes')}) / sum({_of('accelerator_memory_total_bytes')})",
                levels=FULL,
            ),
            number(
                "Power",
                "Total of the devices that report it.",
                "watt",
                f"sum({_of('accelerator_power_watts')})",
            ),
            number(
                "Hottest device",
                "Temperature of the main sensor.",
                "celsius",
                f"max({_of('accelerator_temperature_celsius')})",
                levels=WARM,
            ),
            number(
                "Age of the data",
                "Time since the agent's last collection.",
                "s",
                f"time() - max({_of('accelscope_collection_timestamp_seconds')})",
                levels=((60, WARN), (300, BAD)),
            ),
        ],
    )


def devices() -> Section:
    return Section(
        "Devices",
        [
            rows(
                "Devices",
                "Current values. An empty cell means that the driver does not report the value.",
                _DEVICE,
                Column(
                    "Utilisation", _by_device(_of("accelerator_utilization_ratio")), "percentunit", most=1
                ),
                Column(
                    "Memory",
                    _by_device(
                        f"{_of('accelerator_memory_used_bytes')} / "
                        f"({_of('accelerator_memory_total_bytes')} > 0)"
                    ),
                    "percentunit",
                    levels=FULL,
                    most=1,
                ),
                Column(
                    "Temperature", _by_device(_of("accelerator_temperature_celsius")), "celsius", levels=WARM
                ),
                Column("Power", _by_device(_of("accelerator_power_watts")), "watt"),
                Column("Limit", _by_device(_of("accelerator_power_limit_watts")), "watt"),
                Column("Responds", _by_device(_of("accelerator_up")), "short"),
                links={"device": to(DEVICE, "Device", **_ON_NODE, device=cell("Device"))},
            ),
            rows(
                "What is wrong",
                (
                    "Cause and first action for devices whose health is not ok, which are hot, which have "
                    "fewer links or PCIe lanes than before or than others, or which reported an error."
                ),
                _DEVICE | {"state": "State", "cause": "Cause", "reason": "Reason", "action": "First action"},
                Column(
                    "Is",
                    "max by (vendor, index, model, device, state, cause, reason, action) "
                    f"({CAUSES}{{{_NODE}}})",
                    "short",
                ),
                links={"device": to(DEVICE, "Device", **_ON_NODE, device=cell("Device"))},
            ),
            states(
                "Health",
                "Health of each device over time.",
                HEALTH_STATES,
                Query(health_number(_HERE), _NAME),
            ),
            states(
                "Throttling",
                (
                    "Active throttle reasons, without idle clocks. Only reasons that were active in the time "
                    "range are shown."
                ),
                YES_NO,
                Query(
                    f"{_of('accelerator_throttled', ', ' + TROUBLING)} "
                    f"and max_over_time({_of('accelerator_throttled', ', ' + TROUBLING)}[$__range]) > 0",
                    _NAME + " {{reason}}",
                ),
            ),
            _curves(
                "Utilisation",
                "Fraction of the last sample period during which a kernel was running.",
                "percentunit",
                _of("accelerator_utilization_ratio"),
                1,
            ),
            _curves(
                "Memory in use",
                "Without memory reserved by the driver.",
                "bytes",
                _of("accelerator_memory_used_bytes"),
            ),
            _curves("Temperature", "Main sensor.", "celsius", _of("accelerator_temperature_celsius")),
            _curves("Power", "Power of each device.", "watt", _of("accelerator_power_watts")),
            lines(
                "Clocks",
                "Clocks of the compute units.",
                "hertz",
                Query(_of("accelerator_clock_hertz", ', clock!~"memory|video"'), _NAME + " {{clock}}"),
                links=[_TO_DEVICE],
            ),
            lines(
                "PCIe",
                "Traffic between devices and host.",
                "binBps",
                Query(pcie_rate("transmit", _HERE), _NAME + " to host"),
                Query(pcie_rate("receive", _HERE), _NAME + " from host"),
                links=[_TO_DEVICE],
            ),
            lines(
                "Links between devices",
                "NVLink, XGMI, HCCS: bytes sent by each device.",
                "binBps",
                Query(
                    f"rate({_of('accelerator_link_transmit_bytes_total')}[$__rate_interval])",
                    _NAME + " {{kind}}",
                ),
                links=[_TO_DEVICE],
            ),
            lines(
                "Errors",
                "Per hour: memory errors, errors by code, link errors and PCIe replays.",
                "short",
                Query(f"increase({_of('accelerator_ecc_errors_total')}[1h])", _NAME + " memory {{severity}}"),
                Query(
                    f"increase({_of('accelerator_errors_total', _REAL_ERRORS)}[1h])",
                    _NAME + " {{kind}} {{code}}",
                ),
                Query(f"increase({_of('accelerator_link_errors_total')}[1h])", _NAME + " {{kind}} {{error}}"),
                Query(f"increase({_of('accelerator_pcie_replays_total')}[1h])", _NAME + " PCIe replays"),
                links=[_TO_DEVICE],
            ),
        ],
    )


def users() -> Section:
    return Section(
        "Workloads",
        [
            rows(
                "Pods",
                (
                    "Containers with allocated or used devices of this node. Use is measured from processes; "
                    "allocation comes from the kubelet."
                ),
                _POD,
                Column("Allocated", _by_container("accelerator_pod_allocated"), "short"),
                Column("Utilisation", _by_container("accelerator_pod_utilization_ratio"), "percentunit"),
                Column("Memory", _by_container("accelerator_pod_memory_used_bytes"), "bytes"),
                Column("Processes", _by_container("accelerator_pod_processes"), "short"),
                Column(
                    "Idle",
                    f"min by (namespace, pod, container) ({_of('accelerator_pod_idle_seconds')})",
                    "s",
                    levels=((3600, WARN),),
                ),
                links={
                    "pod": to(WORKLOADS, "Pods", cluster=SAME_CLUSTER, namespace=cell("Namespace")),
                },
                width=16,
            ),
            rows(
                "Unattributed memory",
                "Memory that is not attributed to a pod, by owner and reason.",
                {"owner_kind": "Kind", "owner": "Owner", "reason": "Reason"},
                Column(
                    "Memory",
                    (
                        "sum by (owner_kind, owner, reason) "
                        f"({_of('accelerator_unattributed_memory_used_bytes')})"
                    ),
                    "bytes",
                ),
                sort="Memory",
                width=8,
            ),
        ],
    )


def agent() -> Section:
    return Section(
        "Agent",
        [
            lines(
                "Duration of collections",
                "Whole collection, and time per vendor driver.",
                "s",
                Query(_of("accelscope_collection_duration_seconds"), "collection"),
                Query(_of("accelscope_reader_duration_seconds"), "{{vendor}}"),
                width=8,
            ),
            states(
                "Readers and sources",
                "State of each vendor's reader and of each attribution source.",
                UP_DOWN,
                Query(_of("accelscope_reader_up"), "{{vendor}}"),
                Query(_of("accelscope_attribution_source_up"), "{{source}}"),
                width=8,
            ),
            alerts(
                "Firing and pending alerts of this node.",
                'alertname=~"Accel.+", cluster="$cluster", node="$node"',
                width=8,
            ),
        ],
    )


def build() -> Dashboard:
    return build_dashboard(
        NODE,
        "Node",
        "Devices, workloads and agent of one node.",
        [ONE_CLUSTER, one("node", "Node", "accelscope_node_info", 'cluster="$cluster"'), instances(_NODE)],
        [now(), devices(), users(), agent()],
    )
