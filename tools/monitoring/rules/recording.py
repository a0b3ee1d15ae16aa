"""Recording rules over whole clusters, so that a dashboard over thousands of nodes reads few series.

They record sums and counts, which can be aggregated further. The exception is allocated devices by namespace:
a device that several namespaces share counts in each of them."""

from importlib import import_module

from accelscope.model import HOT_CELSIUS, HOT_MARGIN_CELSIUS, IDLE_SECONDS
from accelscope.vendors import declarations
from tools.monitoring.promql import A_DEVICE, OF_DEVICE, with_model, with_node
from tools.monitoring.rules.rule import Group, Record

TEMPERATURE_BOUNDS = (30, 40, 50, 60, 70, 80, 90, 100)  # celsius
# For each container on a device: its share of the device if it has been idle for an hour, else 0.
IDLE_SHARES = (
    f"(accelerator_pod_device_share_ratio * (accelerator_pod_idle_seconds >= bool {IDLE_SECONDS:g}))"
)

_MODEL = "cluster, vendor, model"
_NAMESPACE = "cluster, namespace, vendor, model"
_NODE = "cluster, node, vendor"
_DEVICE = f"{_NODE}, model, device, index"
_LINKED = f"{_DEVICE}, kind"
_LINKS = "cluster_node_vendor_model_device_index_kind:accelerator_link_up:sum"

# What is wrong with each device, and its pods. Without target labels, so that the series continue when the
# agent pod is replaced.
CAUSES = (
    "cluster_node_vendor_model_device_index_state_cause_reason_action:accelerator_health_cause_info:group"
)
ON_DEVICE = "cluster_node_vendor_device_namespace_pod:accelerator_pod_allocated:group"
OF_NODE = "cluster_node_vendor:accelerator_info:count"
HOT, LINK_DOWN, PCIE_LANES = "hot", "link_down", "pcie_lanes"  # causes that are not a state of health


def _by_model(operation: str, of: str, further: str = "") -> str:
    return f"{operation} by ({_MODEL}{further}) ({with_model(of, labels='model')})"


def _by_namespace(of: str) -> str:
    return f"sum by ({_NAMESPACE}) ({with_model(of, labels='model')})"


def _cause(expression: str, labels: str = "", **given: str) -> Record:
    """`given`: labels of causes that these rules find, not the agent."""
    return Record(CAUSES, f"group by ({_DEVICE}{labels}) ({expression})", tuple(given.items()))


def _sums(*families: str) -> tuple[Record, ...]:
    return tuple(Record(f"cluster_vendor_model:{name}:sum", _by_model("sum", name)) for name in families)


DEVICES = Group(
    "accelscope-devices.rules",
    (
        Record("cluster_vendor_model:accelerator_info:count", f"count by ({_MODEL}) (accelerator_info)"),
        Record(
            OF_NODE,
            f"count by ({_NODE}) (max by ({_NODE}, device) (accelerator_info))",
        ),
        # Without target labels, for the same reason.
        Record(
            _LINKS,
            f"sum by ({_LINKED}) (max by ({_LINKED}, link) ({with_model('accelerator_link_up')}))",
        ),
        *_sums(
            "accelerator_up",
            "accelerator_utilization_ratio",
            "accelerator_memory_total_bytes",
            "accelerator_memory_used_bytes",
            "accelerator_power_watts",
            "accelerator_power_limit_watts",
        ),
        Record(
            "cluster_vendor_model:accelerator_utilization_ratio:count",
            _by_model("count", "accelerator_utilization_ratio"),
        ),
        Record(
            "cluster_vendor_model_state:accelerator_health:sum",
            _by_model("sum", "accelerator_health", ", state"),
        ),
        Record(
            "cluster_vendor_model_reason:accelerator_throttled:sum",
            _by_model("sum", "accelerator_throttled", ", reason"),
        ),
        Record(
            "cluster_vendor_model:accelerator_temperature_celsius:max",
            _by_model("max", "accelerator_temperature_celsius"),
        ),
        *(
            Record(
                "cluster_vendor_model:accelerator_temperature_celsius:bucket",
                _by_model("sum", f"(accelerator_temperature_celsius <= bool {bound})"),
                (("le", str(bound)),),
            )
            for bound in TEMPERATURE_BOUNDS
        ),
        Record(
            "cluster_vendor_model:accelerator_temperature_celsius:bucket",
            _by_model("count", "accelerator_temperature_celsius"),
            (("le", "+Inf"),),
        ),
        Record(
            "cluster_vendor_model_severity:accelerator_ecc_errors:increase1h",
            _by_model("sum", "increase(accelerator_ecc_errors_total[1h])", ", severity"),
        ),
        Record(
            "cluster_vendor_model_kind:accelerator_errors:increase1h",
            _by_model("sum", 'increase(accelerator_errors_total{code!~".+_done"}[1h])', ", kind"),
        ),
    ),
)


def _codes_of_applications() -> str:
    """Codes that do not affect the health, and after which the application is to be debugged or restarted.
    The others, such as corrected memory errors, need no notification: they are on the dashboards."""
    modules = [
        import_module(f"{vendor.package}.{vendor.error_codes}")
        for vendor in declarations().values()
        if vendor.error_codes
    ]
    return "|".join(
        entry.code
        for module in modules
        for entry in module.documented()
        if entry.severity == "info"
        and entry.action.startswith(("Debug the application", "Restart the application"))
    )


_ERRORS = f'code=~"{_codes_of_applications()}"'
# One device has one cause: what its health reports.
_WITHOUT_CAUSE = f"unless {OF_DEVICE} accelerator_health_cause_info"
# Nor one that has just ended, such as a warning after ten minutes: the error is still recent then.
_RECENT_ERRORS = (
    f"(((time() - accelerator_error_last_seen_timestamp_seconds{{{_ERRORS}}}) < 900) "
    f"unless {OF_DEVICE} last_over_time(accelerator_health_cause_info[15m]))"
)
_HOT = (
    "((\n"
    "  (accelerator_temperature_celsius >= ((accelerator_temperature_slowdown_celsius > 0) "
    f"- {HOT_MARGIN_CELSIUS}))\n"
    "  or\n"
    f"  ((accelerator_temperature_celsius >= {HOT_CELSIUS}) "
    f"unless {OF_DEVICE} (accelerator_temperature_slowdown_celsius > 0))\n"
    f") {_WITHOUT_CAUSE})"
)
_USED = "(accelerator_pod_allocated or (accelerator_pod_processes > 0))"
_LANES = with_model("accelerator_pcie_link_width")
_PEERS = "cluster, node, vendor, model"

CAUSES_OF_TROUBLE = Group(
    "accelscope-causes.rules",
    (
        _cause(
            with_model('accelerator_health_cause_info{origin!="application"}'),
            ", state, cause, reason, action",
        ),
        _cause(
            with_model('accelerator_health_cause_info{origin="application"}'),
            ", cause, reason, action",
            state="info",
        ),
        _cause(
            f'label_join({with_model(_RECENT_ERRORS)}, "cause", "_", "kind", "code")',
            ", cause",
            state="info",
            reason="reported by the driver, does not affect the health of the device",
            action="Inform the owners of the pods; if it returns with other pods, look at the device",
        ),
        _cause(
            with_model(_HOT),
            state="warning",
            cause=HOT,
            reason=f"within {HOT_MARGIN_CELSIUS} °C of its slowdown temperature, "
            f"or at {HOT_CELSIUS} °C or above",
            action="Check fans and airflow of the server and the temperature of the room",
        ),
        _cause(
            # The recorded sum: eight devices have up to 144 links, and reading a day of each is expensive.
            f"max_over_time({_LINKS}[1d]) - {_LINKS} > 0",
            state="warning",
            cause=LINK_DOWN,
            reason="fewer links to other devices are up than within the last day",
            action="Drain the node and reset all its devices together, or reboot it",
        ),
        _cause(
            f"({_LANES}) < on ({_PEERS}) group_left () max by ({_PEERS}) ({_LANES})",
            state="warning",
            cause=PCIE_LANES,
            reason="uses fewer PCIe lanes than other devices of the node",
            action="Reseat the card at the next maintenance; else replace riser or cable",
        ),
        Record(
            ON_DEVICE,
            f"group by ({_NODE}, device, namespace, pod) ({with_model(_USED, labels='node')})",
        ),
    ),
)

WORKLOADS = Group(
    "accelscope-workloads.rules",
    (
        Record(
            "cluster_vendor_model:accelerator_pod_allocated:count",
            _by_model("count", f"max by ({A_DEVICE}) (accelerator_pod_allocated)"),
        ),
        Record("cluster_vendor_model:accelerator_pod_idle_1h:count", _by_model("sum", IDLE_SHARES)),
        Record(
            "cluster_namespace_vendor_model:accelerator_pod_allocated:count",
            f"count by ({_NAMESPACE}) "
            f"({with_model(f'max by ({A_DEVICE}, namespace) (accelerator_pod_allocated)', labels='model')})",
        ),
        Record(
            "cluster_namespace_vendor_model:accelerator_pod_idle_1h:count",
            _by_namespace(IDLE_SHARES),
        ),
        Record(
            "cluster_namespace_vendor_model:accelerator_pod_utilization_ratio:sum",
            _by_namespace("accelerator_pod_utilization_ratio"),
        ),
        Record(
            "cluster_namespace_vendor_model:accelerator_pod_memory_used_bytes:sum",
            _by_namespace("accelerator_pod_memory_used_bytes"),
        ),
        Record(
            "cluster_namespace_vendor_model:accelerator_pod_energy_joules:rate5m",
            _by_namespace("rate(accelerator_pod_energy_joules_total[5m])"),
        ),
        Record(
            "cluster_vendor_model:accelerator_idle_energy_joules:rate5m",
            _by_model("sum", "rate(accelerator_idle_energy_joules_total[5m])"),
        ),
        Record(
            "cluster_vendor_model_reason:accelerator_unattributed_memory_used_bytes:sum",
            _by_model("sum", "accelerator_unattributed_memory_used_bytes", ", reason"),
        ),
    ),
)

AGENTS = Group(
    "accelscope-agents.rules",
    (
        Record(
            "cluster_version:accelscope_build_info:count",
            "count by (cluster, version) (accelscope_build_info)",
        ),
        Record(
            "cluster_node_vendor:accelscope_reader_devices_seen:max",
            f"max by ({_NODE}) ({with_node('accelscope_reader_devices_seen')})",
        ),
        Record(
            "cluster_node_vendor:accelscope_reader_devices_expected:max",
            f"max by ({_NODE}) ({with_node('accelscope_reader_devices_expected')})",
        ),
    ),
)

RECORDING: tuple[Group, ...] = (DEVICES, CAUSES_OF_TROUBLE, WORKLOADS, AGENTS)
RECORDED = frozenset(rule.name for group in RECORDING for rule in group.rules)
