"""Recording rules over whole clusters, so that a dashboard over thousands of nodes reads few series.

They record sums and counts, which can be aggregated further. The exception is allocated devices by namespace:
a device that several namespaces share counts in each of them."""

from accelscope.model import IDLE_SECONDS
from tools.monitoring.promql import A_DEVICE, with_model, with_node
from tools.monitoring.rules.rule import Group, Record

TEMPERATURE_BOUNDS = (30, 40, 50, 60, 70, 80, 90, 100)  # celsius
# For each container on a device: its share of the device if it has been idle for an hour, else 0.
IDLE_SHARES = (
    f"(accelerator_pod_device_share_ratio * (accelerator_pod_idle_seconds >= bool {IDLE_SECONDS:g}))"
)

_MODEL = "cluster, vendor, model"
_NAMESPACE = "cluster, namespace, vendor, model"
_NODE = "cluster, node, vendor"
_LINKED = f"{_NODE}, model, device, index, kind"


def _by_model(operation: str, of: str, further: str = "") -> str:
    return f"{operation} by ({_MODEL}{further}) ({with_model(of, labels='model')})"


def _by_namespace(of: str) -> str:
    return f"sum by ({_NAMESPACE}) ({with_model(of, labels='model')})"


def _sums(*families: str) -> tuple[Record, ...]:
    return tuple(Record(f"cluster_vendor_model:{name}:sum", _by_model("sum", name)) for name in families)


DEVICES = Group(
    "accelscope-devices.rules",
    (
        Record("cluster_vendor_model:accelerator_info:count", f"count by ({_MODEL}) (accelerator_info)"),
        Record(
            "cluster_node_vendor:accelerator_info:count",
            f"count by ({_NODE}) (max by ({_NODE}, device) (accelerator_info))",
        ),
        # Without target labels, so that the series continues when the agent pod is replaced.
        Record(
            "cluster_node_vendor_model_device_index_kind:accelerator_link_up:sum",
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

RECORDING: tuple[Group, ...] = (DEVICES, WORKLOADS, AGENTS)
RECORDED = frozenset(rule.name for group in RECORDING for rule in group.rules)
