"""Objects of the model from the labels of series and what else was gathered of them."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from accelscope.fleet.sources.prometheus.draft import Labels, SeriesDraft, text
from accelscope.model import (
    Clock,
    Core,
    Device,
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
    Rail,
    RemappedRows,
    Sensor,
    Throttle,
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
# What there must be of a member of a list. A store may have kept only some of the families that tell of it.
_NEEDED = {
    name: frozenset(field.name for field in fields(made) if field.default is MISSING)
    for name, made in _LISTS.items()
}


def device_of(id_: str, facts: Labels, draft: SeriesDraft, partitions: Iterable[Partition]) -> Device | None:
    """None: of a vendor that is not known."""
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
        health=Health(state),
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
        # It is put down to no pod: what is named there is the agent's, filled in by the scrape.
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
    """Namespace, pod and container. Who scrapes without `honor_labels` has the agent's under these names, and
    the workload's under others."""
    prefix = "exported_" if "exported_pod" in labels else ""
    get = labels.get
    return get(f"{prefix}namespace") or None, get(f"{prefix}pod") or None, get(f"{prefix}container") or None


def member(kind: type[T], word: str | None) -> T | None:
    """A word that a newer agent has, and we do not, tells nothing."""
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
