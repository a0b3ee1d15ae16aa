"""Rebuilds the snapshot of an agent from its series."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.families import Labels, SeriesDraft, Take, as_whole, text
from accelscope.fleet.sources.prometheus.store import ScrapeTarget
from accelscope.model import (
    AgentState,
    Clock,
    Core,
    Device,
    DeviceBalance,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    HealthState,
    Link,
    Owner,
    OwnerKind,
    Partition,
    Pcie,
    Pod,
    PodUsage,
    Process,
    ProcessType,
    Rail,
    ReaderState,
    RemappedRows,
    Sensor,
    Snapshot,
    Throttle,
    Unattributed,
    UnattributedReason,
    Vendor,
)

T = TypeVar("T")

# Facts on `accelerator_info` that are fields of the same name.
_FACTS = (
    "model",
    "architecture",
    "uuid",
    "serial",
    "pci_address",
    "device_name",
    "driver_version",
    "firmware_version",
    "compute_partition",
    "memory_partition",
)
_LISTS: Mapping[str, type[Any]] = {
    "cores": Core,
    "sensors": Sensor,
    "rails": Rail,
    "fans": Fan,
    "clocks": Clock,
    "throttles": Throttle,
    "links": Link,
    "ecc": EccCount,
    "retired_pages": EccCount,
    "errors": ErrorCount,
}
_PARTS: Mapping[str, type[Any]] = {"pcie": Pcie, "remapped_rows": RemappedRows}
# Fields that a member of a list needs. A store may contain only some of the families with its fields.
_NEEDED = {
    name: frozenset(field.name for field in fields(made) if field.default is MISSING)
    for name, made in _LISTS.items()
}


def device_of(id_: str, facts: Labels, draft: SeriesDraft, partitions: Iterable[Partition]) -> Device | None:
    """None: its vendor is unknown."""
    vendor = member(Vendor, facts.get("vendor"))
    if vendor is None:
        return None
    values: dict[str, Any] = {name: text(facts, name) for name in _FACTS}
    values |= draft.values
    state = member(HealthState, values.pop("health", None)) or HealthState.UNKNOWN
    for name, made in _LISTS.items():
        if (members := draft.lists.get(name)) is not None:
            values[name] = tuple(
                made(**parts)
                for _, parts in sorted(members.items(), key=_key)
                if _NEEDED[name] <= parts.keys()
            )
    for name, made in _PARTS.items():
        if (parts := draft.parts.get(name)) is not None:
            values[name] = made(**parts)
    return Device(
        vendor=vendor,
        id=id_,
        index=index(facts, "index"),
        numa_node=index(facts, "numa_node"),
        health=Health(state, **draft.parts.get("health", {})),
        partitions=tuple(sorted(partitions, key=lambda partition: partition.id)),
        **values,
    )


def owner_of(labels: Labels) -> Owner | None:
    word = text(labels, "owner_kind")
    if word is None:
        return None
    kind, reason = member(OwnerKind, word), member(UnattributedReason, labels.get("reason"))
    namespace, pod, container = workload(labels)
    if reason is not None and pod is not None:
        # It is attributed to no pod: the labels are those of the agent, added by the scrape.
        namespace = pod = container = None
    return Owner(
        kind=kind or OwnerKind.UNKNOWN,
        name=text(labels, "owner"),
        namespace=namespace,
        pod=pod,
        container=container,
        reason=reason,
    )


def workload(labels: Labels) -> tuple[str | None, str | None, str | None]:
    """Namespace, pod and container. A scrape without `honor_labels` writes those of the agent into these
    labels, and those of the workload into `exported_…`."""
    prefix = "exported_" if "exported_pod" in labels else ""
    get = labels.get
    return get(f"{prefix}namespace") or None, get(f"{prefix}pod") or None, get(f"{prefix}container") or None


def member(kind: type[T], word: str | None) -> T | None:
    """None for a value of a newer agent that this version does not have."""
    try:
        return None if word is None else kind(word)  # type: ignore[call-arg]
    except ValueError:
        return None


def index(labels: Labels, label: str) -> int | None:
    written = labels.get(label, "")
    digits = written.removeprefix("-")
    return int(written) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _key(item: tuple[tuple[Any, ...], object]) -> tuple[tuple[bool, Any], ...]:
    return tuple((part is not None, part) for part in item[0])


E = TypeVar("E")

_DEVICES: Mapping[str, Take] = {
    **families.DEVICE_ROWS,
    **families.DEVICE_STATES,
    **families.DEVICE_DETAILS,
}

_UsageKey = tuple[str, str, str, str, str | None]  # device, namespace, pod, container, partition
_ProcessKey = tuple[str, int, str | None]  # device, pid, partition


class NodeSeries:
    """Missing series are absent fields; unusable series are ignored."""

    def __init__(self) -> None:
        self._facts: dict[str, Labels] = {}  # by device
        self._devices: dict[str, SeriesDraft] = {}
        self._partitions: dict[tuple[str, str], SeriesDraft] = {}
        self._readers: dict[Vendor, SeriesDraft] = {}
        self._pods: dict[tuple[str, str], Pod] = {}
        self._usages: dict[_UsageKey, SeriesDraft] = {}
        self._processes: dict[_ProcessKey, SeriesDraft] = {}
        self._unattributed: dict[tuple[str, str, str, str], SeriesDraft] = {}
        self._balances: dict[str, SeriesDraft] = {}

    @property
    def has_devices(self) -> bool:
        return bool(self._facts)

    def add(self, labels: Labels, value: float) -> None:
        name = labels.get("__name__", "")
        if (found := _TAKEN.get(name)) is not None:
            taken, take = found
            taken(self, take, labels, value)
        elif name == families.INFO:
            self._take_info(labels)
        elif name == families.POD_INFO:
            self._take_pod(labels)

    def snapshot(self, node: str, target: ScrapeTarget, interval_seconds: float | None) -> Snapshot:
        """`interval_seconds` is the interval between readings in the store."""
        collected_at = target.collected_at if target.collected_at is not None else target.scraped_at
        started_at = target.started_at if target.started_at is not None else collected_at
        return Snapshot(
            node=node,
            taken_at=collected_at,
            agent=AgentState(version=target.version or "", started_at=started_at),
            interval_seconds=interval_seconds,
            readers=tuple(
                ReaderState(vendor=vendor, **{"found": False, "up": False, **draft.values})
                for vendor, draft in self._readers.items()
            ),
            devices=tuple(sorted(self._build_devices(), key=_place)),
            processes=tuple(self._build_processes()),
            pods=tuple(self._pods.values()),
            pod_usages=tuple(self._build_usages()),
            unattributed=tuple(self._build_unattributed()),
            balances=tuple(
                DeviceBalance(
                    device=device,
                    jobs=tuple(sorted(job for (job,) in draft.lists.get("jobs", {}))),
                    **draft.values,
                )
                for device, draft in self._balances.items()
            ),
        )

    # Series by subject

    def _take_info(self, labels: Labels) -> None:
        if (device := text(labels, "device")) is not None:
            self._facts[device] = labels

    def _take_device(self, take: Take, labels: Labels, value: float) -> None:
        if (device := text(labels, "device")) is not None:
            take(_drafted(self._devices, device), labels, value)

    def _take_partition(self, take: Take, labels: Labels, value: float) -> None:
        device, partition = text(labels, "device"), text(labels, "partition")
        if device is not None and partition is not None:
            take(_drafted(self._partitions, (device, partition)), labels, value)

    def _take_reader(self, take: Take, labels: Labels, value: float) -> None:
        if (vendor := member(Vendor, labels.get("vendor"))) is not None:
            take(_drafted(self._readers, vendor), labels, value)

    def _take_pod(self, labels: Labels) -> None:
        namespace, name, _ = workload(labels)
        if namespace is not None and name is not None:
            self._pods[namespace, name] = Pod(
                uid=labels.get("uid", ""),
                namespace=namespace,
                name=name,
                owner_kind=text(labels, "owner_kind"),
                owner_name=text(labels, "owner_name"),
            )

    def _take_usage(self, take: Take, labels: Labels, value: float) -> None:
        device, (namespace, pod, container) = text(labels, "device"), workload(labels)
        if device is not None and namespace is not None and pod is not None:
            key = (device, namespace, pod, container or "", text(labels, "partition"))
            take(_drafted(self._usages, key), labels, value)

    def _take_process(self, take: Take, labels: Labels, value: float) -> None:
        device, pid = text(labels, "device"), labels.get("pid", "")
        if device is not None and pid.isascii() and pid.isdigit() and len(pid) < 16:
            draft = _drafted(self._processes, (device, int(pid), text(labels, "partition")))
            draft.values["name"] = text(labels, "name")
            take(draft, labels, value)

    def _take_unattributed(self, take: Take, labels: Labels, value: float) -> None:
        device = text(labels, "device")
        if device is not None:
            key = (
                device,
                labels.get("owner_kind", ""),
                labels.get("owner", ""),
                labels.get("reason", ""),
            )
            take(_drafted(self._unattributed, key), labels, value)

    def _take_balance(self, take: Take, labels: Labels, value: float) -> None:
        if (device := text(labels, "device")) is not None:
            take(_drafted(self._balances, device), labels, value)

    # Building the objects

    def _build_devices(self) -> Iterable[Device]:
        partitions: dict[str, list[Partition]] = {}
        for (device, name), draft in self._partitions.items():
            partitions.setdefault(device, []).append(Partition(id=name, **draft.values))
        for device, facts in self._facts.items():
            made = device_of(
                device, facts, self._devices.get(device) or SeriesDraft(), partitions.get(device, [])
            )
            if made is not None:
                yield made

    def _build_usages(self) -> Iterable[PodUsage]:
        for (device, namespace, name, container, partition), draft in self._usages.items():
            pod = self._pods.get((namespace, name))
            yield PodUsage(
                device=device,
                namespace=namespace,
                pod=name,
                container=container,
                partition=partition,
                pod_uid=None if pod is None else pod.uid or None,
                **draft.values,
            )

    def _build_processes(self) -> Iterable[Process]:
        for (device, pid, partition), draft in self._processes.items():
            facts = self._facts.get(device)
            values = {**draft.values}
            owner: Owner | None = values.pop("owner", None)
            if owner is not None and owner.pod is not None and owner.namespace is not None:
                pod = self._pods.get((owner.namespace, owner.pod))
                owner = owner if pod is None else _with_uid(owner, pod)
            yield Process(
                pid=pid,
                device=device,
                device_index=None if facts is None else index(facts, "index"),
                partition=partition,
                owner=owner,
                **values,
            )

    def _build_unattributed(self) -> Iterable[Unattributed]:
        for (device, kind, name, reason), draft in self._unattributed.items():
            why = member(UnattributedReason, reason)
            if why is not None:
                yield Unattributed(
                    device=device,
                    kind=member(OwnerKind, kind) or OwnerKind.UNKNOWN,
                    reason=why,
                    name=name or None,
                    **draft.values,
                )


def _take_partition_facts(draft: SeriesDraft, labels: Labels, _: float) -> None:
    draft.values["uuid"] = text(labels, "uuid")
    draft.values["profile"] = text(labels, "profile")
    draft.values["gpu_instance_id"] = index(labels, "gpu_instance")
    draft.values["compute_instance_id"] = index(labels, "compute_instance")


def _take_allocated(draft: SeriesDraft, labels: Labels, value: float) -> None:
    draft.values["allocated"] = as_whole(value) or 0
    draft.values["resources"] = tuple(filter(None, labels.get("resource", "").split(",")))


def _take_process_facts(draft: SeriesDraft, labels: Labels, _: float) -> None:
    draft.values["user"] = text(labels, "user")
    draft.values["type"] = member(ProcessType, labels.get("type"))
    draft.values["mps"] = {"true": True, "false": False}.get(labels.get("mps", ""))
    draft.values["owner"] = owner_of(labels)


def _take_job(draft: SeriesDraft, labels: Labels, _: float) -> None:
    draft.member("jobs", (labels.get("job_id", ""),))


def _with_uid(owner: Owner, pod: Pod) -> Owner:
    return Owner(
        kind=owner.kind,
        name=owner.name,
        namespace=owner.namespace,
        pod=owner.pod,
        container=owner.container,
        pod_uid=pod.uid or None,
        reason=owner.reason,
    )


def _drafted(drafts: dict[E, SeriesDraft], key: E) -> SeriesDraft:
    draft = drafts.get(key)
    if draft is None:
        draft = drafts[key] = SeriesDraft()
    return draft


def _place(device: Device) -> tuple[str, int, str]:
    return device.vendor, -1 if device.index is None else device.index, device.id


_Taken = Callable[[NodeSeries, Take, Labels, float], None]


def _each(by_name: Mapping[str, Take], taken: _Taken) -> dict[str, tuple[_Taken, Take]]:
    return {name: (taken, take) for name, take in by_name.items()}


_TAKEN: Mapping[str, tuple[_Taken, Take]] = {
    **_each(_DEVICES, NodeSeries._take_device),
    **_each(
        {families.PARTITION_INFO: _take_partition_facts, **families.PARTITION_DETAILS},
        NodeSeries._take_partition,
    ),
    **_each(families.READERS, NodeSeries._take_reader),
    **_each({families.POD_ALLOCATED: _take_allocated, **families.POD_ROWS}, NodeSeries._take_usage),
    **_each({families.PROCESS_INFO: _take_process_facts, **families.PROCESS_ROWS}, NodeSeries._take_process),
    **_each(families.UNATTRIBUTED, NodeSeries._take_unattributed),
    **_each({families.JOB_INFO: _take_job, **families.BALANCES}, NodeSeries._take_balance),
}
