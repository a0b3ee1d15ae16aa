"""The dashboard of namespaces and pods: allocation, use, energy and idle devices."""

import re
from collections.abc import Iterable

from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.monitoring.dashboards.frame import NODE, WORKLOADS, Section, build_dashboard
from tools.monitoring.dashboards.panels import WARN, Query, amount, lines, number, ranking
from tools.monitoring.dashboards.tables import Column, rows
from tools.monitoring.dashboards.variables import CLUSTER, MODEL, VENDOR, cell, duration, several, to
from tools.monitoring.promql import A_DEVICE, OF_DEVICE, with_model
from tools.monitoring.rules.recording import IDLE_SHARES

_CHOSEN = 'cluster=~"$cluster", namespace=~"$namespace", vendor=~"$vendor", model=~"$model"'
_DEVICES = 'cluster=~"$cluster", vendor=~"$vendor", model=~"$model"'
_RAW = 'cluster=~"$cluster", namespace=~"$namespace", vendor=~"$vendor"'
_NO_NAMESPACE = 'cluster=~"$cluster", vendor=~"$vendor"'  # for series of devices
_POD = {"cluster": "Cluster", "namespace": "Namespace", "pod": "Pod"}
_ON_NODE = {**_POD, "node": "Node"}
_NODE_LINK = to(NODE, "Node", cluster=cell("Cluster"), node=cell("Node"))

_NOT_IN_PODS = f"cluster_vendor_model_reason:accelerator_unattributed_memory_used_bytes:sum{{{_DEVICES}}}"
# A device that two namespaces share counts in both, so this must not be summed over namespaces.
_ALLOCATED = f"cluster_namespace_vendor_model:accelerator_pod_allocated:count{{{_CHOSEN}}}"
_IDLE = f"cluster_namespace_vendor_model:accelerator_pod_idle_1h:count{{{_CHOSEN}}}"
_USE = f"cluster_namespace_vendor_model:accelerator_pod_utilization_ratio:sum{{{_CHOSEN}}}"
_MEMORY = f"cluster_namespace_vendor_model:accelerator_pod_memory_used_bytes:sum{{{_CHOSEN}}}"
_POWER = f"cluster_namespace_vendor_model:accelerator_pod_energy_joules:rate5m{{{_CHOSEN}}}"


def _of(expression: str, labels: Iterable[str] = _POD, operation: str = "sum") -> str:
    """Aggregate `expression` over the selected devices; `{raw}` in it is replaced by the matchers."""
    chosen = with_model(expression.replace("{raw}", f"{{{_RAW}}}"), _DEVICES)
    return f"{operation} by ({', '.join(labels)}) ({chosen})"


def _by_device(operation: str, family: str) -> str:
    """One series per device, however many pods of the selected namespaces share it."""
    return f"{operation} by ({A_DEVICE}) ({family}{{{_RAW}}})"


def _chosen(expression: str) -> str:
    """Restrict the pod metrics in `expression` to the selected namespaces."""
    return re.sub(r"accelerator_pod_\w+", lambda family: f"{family[0]}{{{_RAW}}}", expression)


_ALLOCATED_DEVICES = f"count({with_model(_by_device('max', 'accelerator_pod_allocated'), _DEVICES)})"
_IDLE_DEVICES = f"sum({with_model(_chosen(IDLE_SHARES), _DEVICES)})"
_IDLE_PODS = f"{_of('accelerator_pod_idle_seconds{raw}', _ON_NODE, 'min')} >= $idle"
_ALLOCATED_SHARES = _of("accelerator_pod_device_share_ratio{raw}", _ON_NODE)
_IDLE_HOURS = _of("(accelerator_pod_device_share_ratio{raw} * accelerator_pod_idle_seconds{raw})", _ON_NODE)
_SHARES = _of("accelerator_pod_memory_share_bytes{raw}")


def _over_range(expression: str, minutes: int = 1) -> str:
    """Sum over the selected time range in hours, with one sample every `minutes` minutes. Missing samples add
    nothing."""
    return f"sum_over_time(({expression})[$__range:{minutes}m]) / {60 // minutes}"


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Allocated devices",
                "Devices allocated to pods of these namespaces. A shared device counts once.",
                "short",
                _ALLOCATED_DEVICES,
            ),
            number(
                "Pods",
                "Pods with allocated or used devices.",
                "short",
                f"count(count by (cluster, namespace, pod) ({_of('accelerator_pod_processes{raw}')}))",
            ),
            number(
                "Allocated but idle",
                "Sum of the device shares that pods of these namespaces have not used for an hour.",
                "short",
                _IDLE_DEVICES,
                levels=((1, WARN),),
                decimals=1,
            ),
            amount(
                "Idle device-hours",
                (
                    "Hours in the selected time range in which device shares allocated to these namespaces "
                    "had not been used for an hour or longer, weighted by share."
                ),
                "h",
                _over_range(_IDLE_DEVICES, minutes=5),  # queries individual devices, so less often
            ),
            amount(
                "Energy",
                "Energy attributed to these pods in the selected time range.",
                "kwatth",
                f"sum({_over_range(f'sum({_POWER})')}) / 1000",
            ),
            number("Power", "Power attributed to these pods.", "watt", f"sum({_POWER})"),
        ],
    )


def namespaces() -> Section:
    return Section(
        "Namespaces",
        [
            lines(
                "Allocated devices",
                "A device that two namespaces share counts in both.",
                "short",
                Query(f"sum by (namespace) ({_ALLOCATED})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Utilisation",
                "Measured: sum of the device utilisation by processes of the namespace.",
                "short",
                Query(f"sum by (namespace) ({_USE})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Memory",
                "Measured: device memory used by processes of the namespace.",
                "bytes",
                Query(f"sum by (namespace) ({_MEMORY})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Power",
                "Estimated: device power in proportion to the namespace's use.",
                "watt",
                Query(f"sum by (namespace) ({_POWER})", "{{namespace}}"),
                stacked=True,
            ),
            rows(
                "Namespaces, over the selected time range",
                "Allocated and idle device-hours, and energy. A shared device counts fully as allocated in "
                "each namespace, and by its share as idle.",
                {"cluster": "Cluster", "namespace": "Namespace"},
                Column("Allocated now", f"sum by (cluster, namespace) ({_ALLOCATED})", "short"),
                Column("Device-hours", _over_range(f"sum by (cluster, namespace) ({_ALLOCATED})"), "h"),
                Column("Idle device-hours", _over_range(f"sum by (cluster, namespace) ({_IDLE})"), "h"),
                Column(
                    "Energy", f"{_over_range(f'sum by (cluster, namespace) ({_POWER})')} / 1000", "kwatth"
                ),
                sort="Device-hours",
            ),
        ],
    )


def pods() -> Section:
    return Section(
        "Pods now",
        [
            ranking(
                "Most used",
                "Measured: sum of the device utilisation by the pod's processes.",
                "short",
                Query(f"topk(10, {_of('accelerator_pod_utilization_ratio{raw}')})", "{{namespace}}/{{pod}}"),
                width=8,
            ),
            ranking(
                "Most memory",
                "Measured: device memory used by the pod's processes.",
                "bytes",
                Query(f"topk(10, {_of('accelerator_pod_memory_used_bytes{raw}')})", "{{namespace}}/{{pod}}"),
                width=8,
            ),
            ranking(
                "Most power",
                "Estimated: device power in proportion to the pod's use.",
                "watt",
                Query(
                    f"topk(10, {_of('rate(accelerator_pod_energy_joules_total{raw}[5m])')})",
                    "{{namespace}}/{{pod}}",
                ),
                width=8,
            ),
            rows(
                "Pods",
                "Pods with allocated or used devices, and their nodes.",
                _ON_NODE,
                Column("Allocated", _of("accelerator_pod_allocated{raw}", _ON_NODE), "short"),
                Column("Utilisation", _of("accelerator_pod_utilization_ratio{raw}", _ON_NODE), "percentunit"),
                Column("Memory", _of("accelerator_pod_memory_used_bytes{raw}", _ON_NODE), "bytes"),
                Column(
                    "Idle",
                    _of("accelerator_pod_idle_seconds{raw}", _ON_NODE, "min"),
                    "s",
                    levels=((3600, WARN),),
                ),
                links={"node": _NODE_LINK},
                sort="Utilisation",
                height=10,
            ),
        ],
    )


def idle() -> Section:
    return Section(
        "Idle and unattributed",
        [
            rows(
                "Pods idle for longer than selected",
                (
                    "Pods that have not used any of their allocated devices. Device-hours: idle time of each "
                    "device times the pod's share."
                ),
                _ON_NODE,
                Column("Idle", _IDLE_PODS, "s"),
                Column("Devices", f"{_ALLOCATED_SHARES} and {_IDLE_PODS}", "short"),
                Column("Device-hours", f"{_IDLE_HOURS} / 3600 and {_IDLE_PODS}", "short"),
                Column(
                    "Memory",
                    f"{_of('accelerator_pod_memory_used_bytes{raw}', _ON_NODE)} and {_IDLE_PODS}",
                    "bytes",
                ),
                links={"node": _NODE_LINK},
                sort="Idle",
            ),
            lines(
                "Idle power of allocated devices",
                "Power of allocated devices that is not attributed to a pod's use.",
                "watt",
                Query(
                    "sum by (vendor) ("
                    + with_model(
                        f"(rate(accelerator_idle_energy_joules_total{{{_NO_NAMESPACE}}}[5m]) "
                        f"and {OF_DEVICE} accelerator_pod_allocated{{{_RAW}}})",
                        _DEVICES,
                    )
                    + ")",
                    "{{vendor}}",
                ),
                width=8,
            ),
            lines(
                "Unattributed memory",
                "Memory in use that is not attributed to a pod, by reason. not_in_a_pod: the process runs "
                "outside Kubernetes.",
                "bytes",
                Query(
                    f"sum by (reason) ({_NOT_IN_PODS})",
                    "{{reason}}",
                ),
                stacked=True,
                width=8,
            ),
            rows(
                "Outside Kubernetes",
                "Owners of processes that use devices outside of pods.",
                {"owner_kind": "Kind", "owner": "Owner", "cluster": "Cluster", "node": "Node"},
                Column(
                    "Memory",
                    "sum by (owner_kind, owner, cluster, node) ("
                    + with_model(
                        f"accelerator_unattributed_memory_used_bytes{{{_NO_NAMESPACE}, "
                        'reason="not_in_a_pod"}',
                        _DEVICES,
                    )
                    + ")",
                    "bytes",
                ),
                links={"node": _NODE_LINK},
                sort="Memory",
                width=8,
            ),
            rows(
                "Used but not allocated",
                "Processes of pods on devices that are not allocated to them.",
                _ON_NODE,
                Column(
                    "Processes",
                    _of(
                        "((accelerator_pod_processes{raw} > 0) unless on (cluster, job, instance, device, "
                        "namespace, pod) accelerator_pod_allocated{raw})",
                        _ON_NODE,
                    ),
                    "short",
                ),
                width=12,
            ),
            rows(
                "Memory use against share",
                (
                    "Pods with a share of a device's memory. Shares may not be enforced: a pod can use more "
                    "than its share."
                ),
                _POD,
                Column("In use", f"{_of('accelerator_pod_memory_used_bytes{raw}')} and {_SHARES}", "bytes"),
                Column("Share", _SHARES, "bytes"),
                sort="In use",
                width=12,
            ),
        ],
    )


def build() -> Dashboard:
    return build_dashboard(
        WORKLOADS,
        "Namespaces and pods",
        "Allocation, use, energy and idle devices by namespace and pod.",
        [
            CLUSTER,
            several("namespace", "Namespace", "accelerator_pod_info", 'cluster=~"$cluster"'),
            VENDOR,
            MODEL,
            duration(
                "idle", "Idle for", {"1m": 60, "15m": 900, "1h": 3600, "4h": 14400, "1d": 86400}, first="1h"
            ),
        ],
        [now(), namespaces(), pods(), idle()],
    )
