"""Devices that containers hold, and ids of devices that nobody knows."""

from collections.abc import Iterator, Sequence

from accelscope.attribution.device_ids import vendor_of
from accelscope.doctor.attribution.look import Look
from accelscope.doctor.finding import Finding, counted, note, ok, warning
from accelscope.doctor.subject import Subject
from accelscope.model import Allocation, AllocationSource

_MOST_NAMED = 5  # in the text; the JSON form has all
_PLUGIN = (
    "Is the device's driver read above, and its reader on (--readers)? A device that was replaced since the "
    "pod started is no longer there. Otherwise AccelScope does not know this form of id: please report it."
)
_CLAIM = (
    "Which device a claim means is told by this node's ResourceSlices: see resource-slices above, and "
    "docs/attribution.md for the right that it needs. The claim itself is shown without."
)


def of_allocations(seen: Look, _: Subject) -> Iterator[Finding]:
    held = seen.attributed.allocations
    containers = {(a.namespace, a.pod, a.container) for a in held}
    unknown = [a for a in held if a.device is None and _is_ours(a)]
    foreign = sorted({_kind(a) for a in held if a.device is None and not _is_ours(a)})
    details = {"ids": len(held), "containers": len(containers), "foreign": foreign}
    ids = counted(len(held), "device id is", "device ids are")
    others = f"; no accelerators: {', '.join(foreign)}" if foreign else ""
    by = counted(len(containers), "container", "containers")
    yield ok("allocations", f"{ids} held by {by}{others}" if held else "nothing is held", **details)
    plugin = [a for a in unknown if a.source is not AllocationSource.CLAIM]
    claimed = [a for a in unknown if a.source is AllocationSource.CLAIM]
    if plugin:
        yield warning("unknown ids", _listed(plugin), _PLUGIN, ids=[_document(a) for a in plugin])
    if claimed:
        tell = warning if seen.options.resource_slices else note
        yield tell("unknown claims", _listed(claimed), _CLAIM, ids=[_document(a) for a in claimed])


def _is_ours(allocation: Allocation) -> bool:
    """Plugins and drivers serve other things than accelerators, too: network cards, FPGAs. Annotations are of
    accelerators, and a kubelet that is too old to name a claim's driver leaves it open."""
    kind = _kind(allocation)
    return not kind or allocation.source is AllocationSource.ANNOTATION or vendor_of(kind) is not None


def _kind(allocation: Allocation) -> str:
    """The resource; of a claim, its driver."""
    return allocation.resource or allocation.device_id.partition("/")[0]


def _listed(unknown: Sequence[Allocation]) -> str:
    named = [
        f"{a.device_id} of {a.namespace}/{a.pod} ({a.claim or a.resource or a.source.value})"
        for a in unknown[:_MOST_NAMED]
    ]
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    return f"none of this node's devices is {', '.join(named)}{more}"


def _document(allocation: Allocation) -> dict[str, str | None]:
    return {
        "namespace": allocation.namespace,
        "pod": allocation.pod,
        "container": allocation.container,
        "resource": allocation.resource,
        "claim": allocation.claim,
        "device_id": allocation.device_id,
    }
