"""Namespaces and pods: who holds devices, what they do with them, what that costs, and what lies idle."""

import re
from collections.abc import Iterable

from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.frame import NODE, WORKLOADS, Section, made
from monitoring.dashboards.panels import WARN, Query, amount, lines, number, ranking
from monitoring.dashboards.tables import Column, rows
from monitoring.dashboards.variables import CLUSTER, MODEL, VENDOR, cell, duration, several, to
from monitoring.promql import A_DEVICE, OF_DEVICE, with_model
from monitoring.rules.recording import IDLE_SHARES

_CHOSEN = 'cluster=~"$cluster", namespace=~"$namespace", vendor=~"$vendor", model=~"$model"'
_DEVICES = 'cluster=~"$cluster", vendor=~"$vendor", model=~"$model"'
_RAW = 'cluster=~"$cluster", namespace=~"$namespace", vendor=~"$vendor"'
_NO_NAMESPACE = 'cluster=~"$cluster", vendor=~"$vendor"'  # of series that are about devices
_POD = {"cluster": "Cluster", "namespace": "Namespace", "pod": "Pod"}
_ON_NODE = {**_POD, "node": "Node"}
_NODE_LINK = to(NODE, "Node", cluster=cell("Cluster"), node=cell("Node"))

_NOT_IN_PODS = f"cluster_vendor_model_reason:accelerator_unattributed_memory_used_bytes:sum{{{_DEVICES}}}"
# By namespace: a device that two of them share counts at both, so this is not added up over namespaces.
_HELD = f"cluster_namespace_vendor_model:accelerator_pod_allocated:count{{{_CHOSEN}}}"
_IDLE = f"cluster_namespace_vendor_model:accelerator_pod_idle_1h:count{{{_CHOSEN}}}"
_USE = f"cluster_namespace_vendor_model:accelerator_pod_utilization_ratio:sum{{{_CHOSEN}}}"
_MEMORY = f"cluster_namespace_vendor_model:accelerator_pod_memory_used_bytes:sum{{{_CHOSEN}}}"
_POWER = f"cluster_namespace_vendor_model:accelerator_pod_energy_joules:rate5m{{{_CHOSEN}}}"


def _of(expression: str, labels: Iterable[str] = _POD, operation: str = "sum") -> str:
    """Of the chosen devices' series, `expression` written with {raw} for what chooses them."""
    chosen = with_model(expression.replace("{raw}", f"{{{_RAW}}}"), _DEVICES)
    return f"{operation} by ({', '.join(labels)}) ({chosen})"


def _by_device(operation: str, family: str) -> str:
    """One series a device, however many of the chosen namespaces' pods share it."""
    return f"{operation} by ({A_DEVICE}) ({family}{{{_RAW}}})"


def _chosen(expression: str) -> str:
    """Of the chosen namespaces' series only."""
    return re.sub(r"accelerator_pod_\w+", lambda family: f"{family[0]}{{{_RAW}}}", expression)


_HELD_DEVICES = f"count({with_model(_by_device('max', 'accelerator_pod_allocated'), _DEVICES)})"
_IDLE_DEVICES = f"sum({with_model(_chosen(IDLE_SHARES), _DEVICES)})"
_IDLE_PODS = f"{_of('accelerator_pod_idle_seconds{raw}', _ON_NODE, 'min')} >= $idle"
_HELD_SHARES = _of("accelerator_pod_device_share_ratio{raw}", _ON_NODE)
_IDLE_HOURS = _of("(accelerator_pod_device_share_ratio{raw} * accelerator_pod_idle_seconds{raw})", _ON_NODE)
_SHARES = _of("accelerator_pod_memory_share_bytes{raw}")


def _over_range(expression: str, minutes: int = 1) -> str:
    """Its sum over the time that is looked at, in hours, asked for every so many minutes. One without samples
    adds nothing."""
    return f"sum_over_time(({expression})[$__range:{minutes}m]) / {60 // minutes}"


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Devices held",
                "Devices that pods of these namespaces were given. A shared device counts once.",
                "short",
                _HELD_DEVICES,
            ),
            number(
                "Pods",
                "That hold or use a device.",
                "short",
                f"count(count by (cluster, namespace, pod) ({_of('accelerator_pod_processes{raw}')}))",
            ),
            number(
                "Held and idle",
                "Shares of devices that these namespaces' pods have not used for an hour, added up.",
                "short",
                _IDLE_DEVICES,
                levels=((1, WARN),),
                decimals=1,
            ),
            amount(
                "Wasted device-hours",
                (
                    "In the time that is looked at: hours in which pods of these namespaces held shares of "
                    "devices that they had not used for an hour or longer, each times its share."
                ),
                "h",
                _over_range(_IDLE_DEVICES, minutes=5),  # of single devices, so less often
            ),
            amount(
                "Energy",
                "In the time that is looked at: what these pods' use of devices accounts for.",
                "kwatth",
                f"sum({_over_range(f'sum({_POWER})')}) / 1000",
            ),
            number("Power", "That these pods' use of devices accounts for.", "watt", f"sum({_POWER})"),
        ],
    )


def namespaces() -> Section:
    return Section(
        "Namespaces",
        [
            lines(
                "Devices held",
                "A device that two namespaces share counts at both.",
                "short",
                Query(f"sum by (namespace) ({_HELD})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Utilisation",
                "Measured: devices' worth of time in which processes of the namespace ran.",
                "short",
                Query(f"sum by (namespace) ({_USE})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Memory",
                "Measured: device memory that processes of the namespace hold.",
                "bytes",
                Query(f"sum by (namespace) ({_MEMORY})", "{{namespace}}"),
                stacked=True,
            ),
            lines(
                "Power",
                "Apportioned: what the namespace's use of devices accounts for.",
                "watt",
                Query(f"sum by (namespace) ({_POWER})", "{{namespace}}"),
                stacked=True,
            ),
            rows(
                "Namespaces, over the time that is looked at",
                "Hours of devices held and wasted, and energy. Of devices held, a shared one counts at each "
                "namespace; of wasted ones, its share.",
                {"cluster": "Cluster", "namespace": "Namespace"},
                Column("Held now", f"sum by (cluster, namespace) ({_HELD})", "short"),
                Column("Device-hours", _over_range(f"sum by (cluster, namespace) ({_HELD})"), "h"),
                Column("Wasted", _over_range(f"sum by (cluster, namespace) ({_IDLE})"), "h"),
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
                "Measured: devices' worth of time in which the pod's processes ran.",
                "short",
                Query(f"topk(10, {_of('accelerator_pod_utilization_ratio{raw}')})", "{{namespace}}/{{pod}}"),
                width=8,
            ),
            ranking(
                "Most memory",
                "Measured: device memory that the pod's processes hold.",
                "bytes",
                Query(f"topk(10, {_of('accelerator_pod_memory_used_bytes{raw}')})", "{{namespace}}/{{pod}}"),
                width=8,
            ),
            ranking(
                "Most power",
                "Apportioned: what the pod's use of devices accounts for.",
                "watt",
                Query(
                    f"topk(10, {_of('rate(accelerator_pod_energy_joules_total{raw}[5m])')})",
                    "{{namespace}}/{{pod}}",
                ),
                width=8,
            ),
            rows(
                "Pods",
                "All that hold or use a device, and where.",
                _ON_NODE,
                Column("Held", _of("accelerator_pod_allocated{raw}", _ON_NODE), "short"),
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
        "Idle and unexplained",
        [
            rows(
                "Idle for longer than chosen above",
                (
                    "Pods that hold devices and have done nothing with any of them. Device-hours: idle time "
                    "of each device times the pod's share of it."
                ),
                _ON_NODE,
                Column("Idle", _IDLE_PODS, "s"),
                Column("Devices", f"{_HELD_SHARES} and {_IDLE_PODS}", "short"),
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
                "Power of devices that are held and not used",
                "What devices draw that some pod holds and no pod's use accounts for.",
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
                "Memory in use that is no pod's",
                "Of all namespaces, by the reason. not_in_a_pod: it runs beside Kubernetes.",
                "bytes",
                Query(
                    f"sum by (reason) ({_NOT_IN_PODS})",
                    "{{reason}}",
                ),
                stacked=True,
                width=8,
            ),
            rows(
                "Beside Kubernetes",
                "Who uses devices without being in a pod.",
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
                "Used without having been given",
                "Processes of pods on devices that the kubelet did not give them.",
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
                "Memory beside its share",
                (
                    "Pods that were given a share of a device's memory. Shares are limits on "
                    "paper: a pod may be above its own."
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
    return made(
        WORKLOADS,
        "Namespaces and pods",
        "Who holds devices, what they do with them, what that costs, and what lies idle.",
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
