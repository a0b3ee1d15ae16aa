"""What a vendor contributes to the examination.

One real pass through the vendor's reader is the same for every vendor and is added to its own checks.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelscope.agent.assembly import make_runner
from accelscope.agent.collector import MOST_PASSES, read_and_stop
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.processes import ProcessTable
from accelscope.doctor.check import (
    Area,
    Check,
    Finding,
    Severity,
    Subject,
    counted,
    error,
    note,
    ok,
    sentence,
    warning,
)
from accelscope.model import AbsenceReason, Device, HealthState, Process, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.files import PciDevice


@dataclass(frozen=True, slots=True)
class Hardware:
    """What there is of a vendor, told by others than its driver: what the reader's count is held against."""

    addresses: frozenset[str] = frozenset()  # of devices that the vendor's driver holds, on PCI
    unheld: frozenset[str] = frozenset()  # of those that no driver holds
    device_files: int | None = None  # None: this vendor's devices have none that can be counted
    driver_loaded: bool = False

    @property
    def is_there(self) -> bool:
        return bool(self.addresses or self.unheld)


@dataclass(frozen=True, slots=True)
class VendorExamination:
    vendor: Vendor
    checks: tuple[Check, ...]
    hardware: Callable[[Subject], Hardware]
    # What to do, by the reason of a reader's error or of an absent value, or by what is said of a device's
    # health. Beside those: driver_absent, library_absent, missing, unheld, no_devices.
    advice: Callable[[str, Subject], str]


def examination_of(vendor: Vendor) -> VendorExamination:
    declaration = declarations()[vendor]
    examination: VendorExamination = declaration.load(declaration.examination)
    return examination


def vendor_area(vendor: Vendor, results: MutableMapping[Vendor, Result] | None = None) -> Area:
    """What its reader brings is left in `results`."""

    examination = examination_of(vendor)
    read = Check(
        "reading",
        partial(reading, examination, results=results),
        seconds,
        "The reader did not even give up by itself: this is a fault in AccelScope, please report it.",
    )
    return Area(vendor.value, (*examination.checks, read))


# --- pci ------------------------------------------------------------
# A vendor's devices on the PCI bus: what is said of them in every vendor's area.


_PASSED_ON = "vfio"  # drivers whose name begins so hand a device to a virtual machine


def is_passed_on(device: PciDevice) -> bool:
    return (device.driver or "").startswith(_PASSED_ON)


def on_pci(
    sys: Path, found: tuple[PciDevice, ...] | None, *, what: str, none: str, unless: str = ""
) -> Iterator[Finding]:
    """`what` they are called, what to say where there are `none`, and `unless` for devices elsewhere."""
    if found is None:
        yield note(
            "pci",
            f"{sys}/bus/pci/devices is not there: {what} cannot be counted without their driver",
            f"In a pod, mount the node's /sys and name it with --sys-root{unless}.",
        )
        return
    if not found:
        yield note("pci", none)
        return
    details = {device.address: {"device": device.device_code, "driver": device.driver} for device in found}
    yield ok("pci", f"{len(found)}: {', '.join(device.address for device in found)}", devices=details)
    passed_on = [device.address for device in found if is_passed_on(device)]
    if passed_on:
        yield note(
            "pci", f"{sentence(passed_on)} held by vfio for a virtual machine: not this node's to read"
        )


# --- reading ------------------------------------------------------------
# Real passes through a vendor's reader, as the agent makes them, held against what else is known.


_HEALTH = {
    HealthState.OK: Severity.OK,
    HealthState.WARNING: Severity.WARNING,
    HealthState.CRITICAL: Severity.ERROR,
    HealthState.LOST: Severity.ERROR,
    HealthState.UNKNOWN: Severity.ERROR,
}
# Absences that somebody can do something about; the others are how the device is.
_CURABLE = (AbsenceReason.NO_PERMISSION, AbsenceReason.TIMEOUT, AbsenceReason.DRIVER_ERROR)


def seconds(settings: AgentSettings) -> float:
    """Longer than passes can last in which everything is as slow as it may be: the runner gives up by itself
    what hangs, and no pass follows one that brought nothing new."""
    return MOST_PASSES * (2 * settings.reader_timeout + settings.device_timeout) + 5


def reading(
    examination: VendorExamination,
    subject: Subject,
    *,
    results: MutableMapping[Vendor, Result] | None = None,
) -> Iterator[Finding]:
    hardware = examination.hardware(subject)
    result = read_vendor(examination, subject)
    if results is not None:
        results[examination.vendor] = result
    state = result.state
    if not state.found:
        yield _absent(examination, subject, hardware, state.reason or "")
        return
    hung = state.abandoned_calls > 0
    details = {
        "source": state.source,
        "driver_version": state.driver_version,
        "devices": len(result.devices),
        "answering": state.devices_seen,
        "seconds": state.duration_seconds,
        "abandoned_calls": state.abandoned_calls,
        "errors": {c.reason: c.count for c in state.errors},
    }
    if state.up:
        found = (
            f"{state.devices_seen} of {len(result.devices)} devices answer through {state.source}, "
            f"driver {state.driver_version or 'of unknown version'}, in {state.duration_seconds or 0:.2f} s"
        )
        yield replace(ok("reading", found, **details), hung=hung)
    else:
        reason = state.errors[0].reason if state.errors else "driver_error"
        found = f"the driver cannot be read: {state.reason}"
        yield replace(error("reading", found, examination.advice(reason, subject), **details), hung=hung)
    if not result.devices and not state.up:
        return
    yield from count(examination, subject, hardware, result.devices)
    for device in result.devices:
        yield of_device(examination, subject, device)
    yield from _curable_absences(examination, subject, result.devices)
    if state.rejected:
        yield warning(
            "rejected",
            f"{sum(c.count for c in state.rejected)} lines or cells of the driver's answer make no sense: "
            + ", ".join(f"{c.reason} {c.count}" for c in state.rejected),
            "Save the tool's output, look at it with `accelscope parse`, and please report it.",
        )
    yield of_processes(subject, result.processes)


def read_vendor(examination: VendorExamination, subject: Subject) -> Result:
    changed = threading.Condition()
    runner = make_runner(examination.vendor, subject.settings, changed, once=True)
    [result] = read_and_stop([runner], changed)
    return result


def _absent(examination: VendorExamination, subject: Subject, hardware: Hardware, reason: str) -> Finding:
    if not hardware.is_there and not hardware.driver_loaded:
        return note(
            "reading",
            f"nothing to read: {reason}",
            "Nothing, if this node has no such device: the agent stays up and ready, and finds a driver that "
            "comes later.",
        )
    if hardware.driver_loaded:
        todo = examination.advice("library_absent", subject)
        return error("reading", f"the driver is loaded, but {reason}", todo)
    todo = examination.advice("driver_absent", subject)
    return warning("reading", f"there are devices, but {reason}", todo)


def count(
    examination: VendorExamination, subject: Subject, hardware: Hardware, devices: tuple[Device, ...]
) -> Iterator[Finding]:
    """Devices by all who count them."""
    found = {"reader": len(devices)}
    if hardware.is_there:
        found["PCI"] = len(hardware.addresses | hardware.unheld)
    if hardware.device_files is not None:
        found["device files"] = hardware.device_files
    expected = subject.settings.expected_devices
    if expected:
        found["--expected-devices"] = expected
    counts = ", ".join(f"{who} {number}" for who, number in found.items())
    shown = {device.pci_address for device in devices}
    nameless = [device for device in devices if device.pci_address is None]
    missing = sorted(hardware.addresses - shown)
    unheld = sorted(hardware.unheld - shown)
    if nameless and len(nameless) >= len(missing) + len(unheld):
        # A lost device does not tell its address, but those of the others leave few to choose from.
        if missing or unheld:
            counts += f"; device {sentence([str(d.index) for d in nameless])} is {sentence(missing + unheld)}"
        missing, unheld = [], []
    if missing or len(devices) < expected:
        which = f"; the driver does not show {sentence(missing)}" if missing else ""
        yield error(
            "count", f"{counts}{which}", examination.advice("missing", subject), counts=found, missing=missing
        )
    elif unheld:
        yield warning(
            "count",
            f"{counts}; no driver holds {sentence(unheld)}",
            examination.advice("unheld", subject),
            counts=found,
            missing=unheld,
        )
    elif devices:
        yield ok("count", counts, counts=found)
    else:
        yield warning(
            "count",
            f"{counts}: the driver is up and shows no device",
            examination.advice("no_devices", subject),
            counts=found,
        )


def of_device(examination: VendorExamination, subject: Subject, device: Device) -> Finding:
    absent = Counter(absence.reason.value for absence in device.absent)
    health = device.health
    words = [device.model or "model not told", device.id, health.state.value]
    if health.reason:
        words[-1] += f" ({health.reason})"
    if absent:
        words.append(
            f"{absent.total()} values absent ({', '.join(f'{r} {n}' for r, n in absent.most_common())})"
        )
    severity = _HEALTH[health.state]
    return Finding(
        name=f"device {'?' if device.index is None else device.index}",
        severity=severity,
        found=", ".join(words),
        advice=None if severity is Severity.OK else _advice(examination, subject, device),
        details={
            "id": device.id,
            "model": device.model,
            "pci_address": device.pci_address,
            "health": health.state.value,
            "health_reason": health.reason,
            "absent": {
                reason: sorted(a.field for a in device.absent if a.reason.value == reason)
                for reason in absent
            },
        },
    )


def _advice(examination: VendorExamination, subject: Subject, device: Device) -> str:
    """Commands in it name the device."""
    todo = examination.advice(_trouble(device), subject)
    return todo if device.index is None else todo.replace("INDEX", str(device.index))


def _trouble(device: Device) -> str:
    """The word under which advice is to be had."""
    reason = device.health.reason or ""
    if device.stale:
        return reason.partition(":")[0]  # begins with the word that was counted
    return reason  # in the words of the vendor's own judgement


def _curable_absences(
    examination: VendorExamination, subject: Subject, devices: tuple[Device, ...]
) -> Iterator[Finding]:
    for reason in _CURABLE:
        fields = sorted({a.field for device in devices for a in device.absent if a.reason is reason})
        if fields:
            yield warning(
                "absent",
                f"{reason.value}: {', '.join(fields)}",
                examination.advice(reason.value, subject),
                reason=reason.value,
                fields=fields,
            )


def of_processes(subject: Subject, processes: tuple[Process, ...]) -> Finding:
    """Names and users come from /proc, as in the agent."""
    table = ProcessTable(subject.paths.proc, Path(subject.settings.passwd_file))
    hosts = table.look_up(process.pid for process in processes)
    total = len(processes)
    named = sum(process.name is not None or process.pid in hosts for process in processes)
    owned = sum(process.user is not None or process.pid in hosts for process in processes)
    details = {"processes": total, "with_name": named, "with_user": owned}
    if total == 0:
        return ok("on devices", "no process uses a device now", **details)
    found = f"{counted(total, 'process', 'processes')}, {named} with a name, {owned} with a user"
    if owned == total:
        return ok("on devices", found, **details)
    return warning(
        "on devices",
        found,
        "Users come from the node's /proc: hostPID: true in a pod, or --proc-root for a /proc that is "
        "mounted elsewhere. A process that ended between two looks is no fault.",
        **details,
    )
