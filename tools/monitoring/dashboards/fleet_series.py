"""Series and expressions of the fleet dashboard. `CHOSEN` selects by the dashboard's variables."""

from tools.monitoring.dashboards.frame import DEVICE, NODE
from tools.monitoring.dashboards.variables import cell, to
from tools.monitoring.dashboards.vocabulary import TROUBLING
from tools.monitoring.promql import with_model
from tools.monitoring.rules.recording import CAUSES

CHOSEN = 'cluster=~"$cluster", vendor=~"$vendor", model=~"$model"'
RAW = 'cluster=~"$cluster", vendor=~"$vendor"'  # for series without the label `model`


def recorded(metric: str, matchers: str = "") -> str:
    return f"{metric}{{{CHOSEN}{matchers}}}"


COUNT = recorded("cluster_vendor_model:accelerator_info:count")
USE = recorded("cluster_vendor_model:accelerator_utilization_ratio:sum")
USE_KNOWN = recorded("cluster_vendor_model:accelerator_utilization_ratio:count")
MEMORY_USED = recorded("cluster_vendor_model:accelerator_memory_used_bytes:sum")
MEMORY = recorded("cluster_vendor_model:accelerator_memory_total_bytes:sum")
POWER = recorded("cluster_vendor_model:accelerator_power_watts:sum")
POWER_LIMIT = recorded("cluster_vendor_model:accelerator_power_limit_watts:sum")
ALLOCATED = recorded("cluster_vendor_model:accelerator_pod_allocated:count")
IDLE = recorded("cluster_vendor_model:accelerator_pod_idle_1h:count")
# Shared devices count in each namespace, so these must not be summed over namespaces.
NAMESPACE_ALLOCATED = recorded("cluster_namespace_vendor_model:accelerator_pod_allocated:count")
NAMESPACE_IDLE = recorded("cluster_namespace_vendor_model:accelerator_pod_idle_1h:count")
POD_POWER = recorded("cluster_namespace_vendor_model:accelerator_pod_energy_joules:rate5m")
IDLE_POWER = recorded("cluster_vendor_model:accelerator_idle_energy_joules:rate5m")
HEALTH = "cluster_vendor_model_state:accelerator_health:sum"
UNHEALTHY = ', state=~"warning|critical|lost"'
NOT_OK = ', state!="ok"'
THROTTLED = recorded("cluster_vendor_model_reason:accelerator_throttled:sum", f", {TROUBLING}")
CAUSES_NOW = recorded(CAUSES, ', state!="info"')
LABELS = {
    "cluster": "Cluster",
    "node": "Node",
    "vendor": "Vendor",
    "model": "Model",
    "index": "Index",
    "device": "Device",
}
NODE_LINK = to(NODE, "Node", cluster=cell("Cluster"), node=cell("Node"))
DEVICE_LINK = to(DEVICE, "Device", cluster=cell("Cluster"), node=cell("Node"), device=cell("Device"))
DEVICE_LABELS = "cluster, node, vendor, model, index, device"


def kilowatt_hours(watts: str) -> str:
    """Energy in the selected time range. A minute without samples adds nothing."""
    return f"sum(sum_over_time(({watts})[$__range:1m])) / 60 / 1000"


def per_node(operation: str, family: str) -> str:
    return f"{operation} by (cluster, node) ({with_model(f'{family}{{{RAW}}}', CHOSEN)})"
