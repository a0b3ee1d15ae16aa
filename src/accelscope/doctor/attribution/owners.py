"""Processes that are put down to pods, and those that are not, by the reason why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accelscope.attribution.options import PodSource
from accelscope.doctor.attribution.advice import OF_REASON
from accelscope.doctor.attribution.look import Look
from accelscope.doctor.finding import Finding, Severity, counted, note, ok
from accelscope.doctor.subject import Subject
from accelscope.model import Owner, OwnerKind, Process, UnattributedReason

_MOST_NAMED = 5  # in the text; the JSON form has all
_ID_SHOWN = 12  # characters of a container's id, as container tools show it
_MUCH = 0.1  # share of a device's memory: more than drivers keep for themselves
_GIB = 1 << 30
# Reasons that pass by themselves as long as the source that tells is up.
_TELLS = {UnattributedReason.PROCESS_GONE: "processes", UnattributedReason.POD_UNKNOWN: "pods"}


def of_processes(seen: Look, subject: Subject) -> Iterator[Finding]:
    processes = seen.by_pid()
    by_reason: dict[UnattributedReason, list[list[Process]]] = {}
    for on in processes.values():
        owner = on[0].owner
        if owner is not None and owner.reason is not None:
            by_reason.setdefault(owner.reason, []).append(on)
    yield _attributed(processes, sum(map(len, by_reason.values())))
    for reason in UnattributedReason:
        if reason in by_reason:
            yield _of_reason(reason, by_reason[reason], seen, subject)
    yield from _memory_of_nobody(seen)


def _attributed(processes: Mapping[int, Sequence[Process]], others: int) -> Finding:
    total = len(processes)
    owners = (on[0].owner for on in processes.values())
    pods = {(owner.namespace, owner.pod) for owner in owners if owner is not None and owner.reason is None}
    details = {"processes": total, "of_pods": total - others, "pods": len(pods)}
    if not total:
        return ok("attributed", "no process to put down to a pod", **details)
    found = f"{total - others} of {counted(total, 'process', 'processes')} put down to "
    return ok("attributed", found + counted(len(pods), "pod", "pods"), **details)


def _of_reason(
    reason: UnattributedReason, listed: Sequence[Sequence[Process]], seen: Look, subject: Subject
) -> Finding:
    severity = _severity(reason, seen, subject)
    named = [_named(on, seen) for on in listed[:_MOST_NAMED]]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return Finding(
        name=reason.value,
        severity=severity,
        found=f"{counted(len(listed), 'process', 'processes')}: {', '.join(named)}{more}",
        advice=None if severity is Severity.OK else _advice(reason, seen),
        details={"reason": reason.value, "processes": [_document(on, seen) for on in listed]},
    )


def _severity(reason: UnattributedReason, seen: Look, subject: Subject) -> Severity:
    """A note where it is how things are or somebody chose it, a warning where something is missing."""
    if reason is UnattributedReason.NOT_IN_A_POD:
        return Severity.OK if seen.options.pods is PodSource.OFF else Severity.NOTE
    if reason is UnattributedReason.NO_POD_SOURCE and subject.settings.pod_source == PodSource.OFF:
        return Severity.NOTE
    if reason not in _TELLS or _is_down(_TELLS[reason], seen):
        return Severity.WARNING
    # A few may have come or gone between two looks; if none is known, it is something else.
    known = any(p.owner is not None and p.owner.reason is None for p in seen.attributed.processes)
    return Severity.NOTE if known or reason is UnattributedReason.PROCESS_GONE else Severity.WARNING


def _is_down(source: str, seen: Look) -> bool:
    state = seen.state(source)
    return state is None or not state.up


def _advice(reason: UnattributedReason, seen: Look) -> str:
    source = _TELLS.get(reason)
    if source is not None and _is_down(source, seen):
        return f"Mend what is said of {source}, above; the rest follows."
    return OF_REASON[reason]


def _named(on: Sequence[Process], seen: Look) -> str:
    process = on[0]
    where = ", ".join(seen.device(p.device) for p in on[:2]) + (" ..." if len(on) > 2 else "")
    whose = f", {_owner(process.owner)}" if process.owner is not None and process.owner.name else ""
    return f"{process.name or 'unnamed'} (pid {process.pid} on {where}{whose})"


def _owner(owner: Owner) -> str:
    name = owner.name or ""
    if owner.kind is OwnerKind.CONTAINER:
        name = name[:_ID_SHOWN]
    return f"{owner.kind.value.replace('_', ' ')} {name}"


def _document(on: Sequence[Process], seen: Look) -> dict[str, Any]:
    process = on[0]
    return {
        "pid": process.pid,
        "name": process.name,
        "devices": [seen.device(p.device) for p in on],
        "owner_kind": None if process.owner is None else process.owner.kind.value,
        "owner": None if process.owner is None else process.owner.name,
    }


def _memory_of_nobody(seen: Look) -> Iterator[Finding]:
    totals = {device.id: device.memory_total_bytes for device in seen.devices}
    untold = {process.device for process in seen.attributed.processes if process.memory_bytes is None}
    much = {
        seen.device(other.device): other.memory_used_bytes
        for other in seen.attributed.unattributed
        if other.reason is UnattributedReason.NO_PROCESS
        and other.memory_used_bytes is not None
        and other.memory_used_bytes > _MUCH * (totals.get(other.device) or 0)
        and other.device not in untold  # there the driver shows processes, and not what they hold
    }
    if much:
        shown = ", ".join(f"{used / _GIB:.1f} GiB of {device}" for device, used in much.items())
        yield note(
            UnattributedReason.NO_PROCESS.value,
            f"memory in use that no process is shown with: {shown}",
            OF_REASON[UnattributedReason.NO_PROCESS],
            memory_bytes=much,
        )
