"""Labels of series about devices and pods, written out.

What rarely changes is kept from one collection to the next, and forgotten when most of it is of the past:
where pods come and go, what is kept must not grow with those that went.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from accelscope.metrics.catalogue import INFO_LABELS
from accelscope.metrics.family import SCOPE_LABELS, Scope
from accelscope.metrics.lines import escape, label_text
from accelscope.model import Allocation, Device, Pod, PodUsage, Snapshot, Unattributed

Pairs = tuple[tuple[str, str], ...]

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_ON_INFO = (*SCOPE_LABELS[Scope.DEVICE], *INFO_LABELS)


def outgrown(kept: int, used: int) -> bool:
    """Whether more is kept than a node of this size needs."""
    return kept > 2 * used + 64


def kubernetes_labels(labels: Pairs) -> Iterator[tuple[str, str]]:
    """Labels of a pod or Node under the names that kube-state-metrics gives them. Of two that become the same
    name the first stays: a series cannot have a name twice."""
    seen = set()
    for name, value in labels:
        written = f"label_{_NOT_IN_A_NAME.sub('_', name)}"
        if written not in seen:
            seen.add(written)
            yield written, value


def node_labels(snapshot: Snapshot) -> str:
    """What stands behind the labels of `accelerator_info`: on every series it would multiply them."""
    pairs = {"node": snapshot.node}
    for name, value in (*snapshot.labels, *kubernetes_labels(snapshot.node_labels)):
        if name not in _ON_INFO:
            pairs.setdefault(name, value)
    return label_text(pairs.items())


class PodLabels:
    """Which labels each pod's series have: those of the pod that a setting names."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_uid: dict[str | None, Pairs] = {}
        self._by_name: dict[tuple[str, str], Pairs] = {}
        for pod in pods:
            self._by_uid[pod.uid] = self._by_name[pod.namespace, pod.name] = pod.labels

    def of(self, usage: PodUsage) -> Pairs:
        """By name where the uid is not known, or not yet."""
        found = self._by_uid.get(usage.pod_uid)
        return self._by_name.get((usage.namespace, usage.pod), ()) if found is None else found


class SeriesLabels:
    def __init__(self) -> None:
        self._devices: dict[tuple[str, int | None], str] = {}
        self._usages: dict[tuple[str, str, str, str, str | None, Pairs], str] = {}

    def of_device(self, device: Device) -> str:
        key = (device.id, device.index)
        labels = self._devices.get(key)
        if labels is None:
            index = "" if device.index is None else str(device.index)
            labels = label_text((("vendor", device.vendor), ("device", device.id), ("index", index)))
            self._devices[key] = labels
        return labels

    def of_usage(self, usage: PodUsage, device: str, pod_labels: Pairs) -> str:
        key = (device, usage.namespace, usage.pod, usage.container, usage.partition, pod_labels)
        labels = self._usages.get(key)
        if labels is None:
            pairs = [("namespace", usage.namespace), ("pod", usage.pod), ("container", usage.container)]
            if usage.partition is not None:
                pairs.append(("partition", usage.partition))
            labels = self._usages[key] = f"{device},{label_text([*pairs, *kubernetes_labels(pod_labels)])}"
        return labels

    def forget(self, *, devices: int, usages: int) -> None:
        if outgrown(len(self._devices), devices):
            self._devices.clear()
        if outgrown(len(self._usages), usages):
            self._usages.clear()


def of_unlisted(device: str) -> str:
    """Of a device that is spoken of and not in the snapshot."""
    return label_text((("vendor", ""), ("device", device), ("index", "")))


def of_unattributed(item: Unattributed, device: str) -> str:
    pairs = (("owner_kind", item.kind), ("owner", item.name or ""), ("reason", item.reason))
    return f"{device},{label_text(pairs)}"


def of_pod(pod: Pod) -> str:
    values = (pod.namespace, pod.name, pod.uid, pod.owner_kind or "", pod.owner_name or "")
    own = zip(SCOPE_LABELS[Scope.POD_INFO], values, strict=True)
    return label_text([*own, *kubernetes_labels(pod.labels)])


def of_unknown(allocations: Iterable[Allocation]) -> Mapping[str, Allocation]:
    """Those whose device is not known, by their labels: an id that two sources tell of is one series."""
    found: dict[str, Allocation] = {}
    for a in allocations:
        if a.device is None:
            values = (a.namespace, a.pod, a.container, a.resource or "", a.device_id, a.claim or "")
            found.setdefault(label_text(zip(SCOPE_LABELS[Scope.UNKNOWN_ALLOCATION], values, strict=True)), a)
    return found


def of_source(name: str) -> str:
    return f'source="{escape(name)}"'


def of_sink(name: str) -> str:
    return f'sink="{escape(name)}"'
