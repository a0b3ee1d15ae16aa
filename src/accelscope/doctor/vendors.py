"""A vendor's area: the checks that it declares, then a read of its devices as the agent does it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from accelscope.agent.assembly import make_runner, stored_errors
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
    error,
    join_words,
    note,
    ok,
    pluralize,
    warning,
)
from accelscope.doctor.cross_check import CrossCheck, cross_check
from accelscope.doctor.cross_check import seconds as cross_check_seconds
from accelscope.model import AbsenceReason, Device, HealthState, Process, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common import pcie_errors
from accelscope.vendors.common.error_codes import ErrorCode
from accelscope.vendors.common.files import PciDevice, read_optional

_AER_FILES = ("aer_dev_fatal", "aer_dev_nonfatal", "aer_dev_correctable")


@dataclass(frozen=True, slots=True)
class Hardware:
    """A vendor's devices as PCI and device files show them, to compare with what the reader finds."""

    addresses: frozenset[str] = frozenset()  # PCI addresses of devices bound to the vendor's driver
    unheld: frozenset[str] = frozenset()  # PCI addresses of devices without a driver
    device_files: int | None = None  # None: this vendor has no device files that can be counted
    driver_loaded: bool = False

    @property
    def is_present(self) -> bool:
        return bool(self.addresses or self.unheld)


@dataclass(frozen=True, slots=True)
class VendorExamination:
    vendor: Vendor
    checks: tuple[Check, ...]
    hardware: Callable[[Subject], Hardware]
    # Advice by the reason of a reader's error, of an absent value or of a device's health. Further keys:
    # driver_absent, library_absent, missing, unheld, no_devices.
    advice: Callable[[str, Subject], str]
    cross_check: CrossCheck | None = None  # the tools to compare the reader with


def examination_of(vendor: Vendor) -> VendorExamination:
    declaration = declarations()[vendor]
    examination: VendorExamination = declaration.load(declaration.examination)
    return examination


def vendor_area(vendor: Vendor, results: MutableMapping[Vendor, Result] | None = None) -> Area:
    """Its reader's result is stored in `results`."""
    examination = examination_of(vendor)
    read = Check(
        "reading",
        partial(reading, examination, results=results),
        seconds,
        "The reader ignored its own timeouts: this is a bug in AccelScope, please report it.",
    )
    return Area(vendor.value, (*examination.checks, read))


def cross_check_area(vendors: Iterable[Vendor]) -> Area:
    """For each vendor, its reader's values beside those of its tools."""
    compared: list[Vendor] = []
    checks = []
    for vendor in vendors:
        examination = examination_of(vendor)
        if examination.cross_check is not None:
            look = partial(_cross_checked, examination, examination.cross_check, compared=compared)
            checks.append(Check(vendor.value, look, cross_check_seconds))
    return Area("cross-check", (*checks, Check("tools", partial(_nothing_compared, compared))))


def cross_check_commands(vendor: Vendor) -> tuple[str, ...]:
    """The commands of the vendor's tools that are run for that."""
    declared = examination_of(vendor).cross_check
    return () if declared is None else tuple(text for tool in declared.tools for text in tool.texts())


def _cross_checked(
    examination: VendorExamination, declared: CrossCheck, subject: Subject, *, compared: list[Vendor]
) -> Iterator[Finding]:
    advice = partial(_advice_for, examination, subject)
    for finding in cross_check(examination.vendor, declared, advice, subject):
        compared.append(examination.vendor)
        yield finding


def _advice_for(examination: VendorExamination, subject: Subject, reason: str) -> str:
    return examination.advice(reason, subject)


def _nothing_compared(compared: list[Vendor], _: Subject) -> Iterator[Finding]:
    if not compared:
        yield note("tools", "nothing to compare: neither devices nor a vendor's tool found")


def is_passed_through(device: PciDevice) -> bool:
    """Whether a vfio driver passes the device through to a virtual machine."""
    return (device.driver or "").startswith("vfio")


def on_pci(
    sys: Path, found: tuple[PciDevice, ...] | None, *, what: str, none: str, unless: str = ""
) -> Iterator[Finding]:
    """`what` names the devices, `none` is the text where there are none, `unless` an exception to the
    advice."""
    if found is None:
        yield note(
            "pci",
            f"{sys}/bus/pci/devices does not exist: {what} cannot be counted without their driver",
            f"In a pod, mount the node's /sys and set --sys-root to it{unless}.",
        )
        return
    if not found:
        yield note("pci", none)
        return
    details = {device.address: {"device": device.device_code, "driver": device.driver} for device in found}
    yield ok("pci", f"{len(found)}: {', '.join(device.address for device in found)}", devices=details)
    passed = [device.address for device in found if is_passed_through(device)]
    if passed:
        yield note("pci", f"passed through to a virtual machine (vfio), not readable: {join_words(passed)}")


_HEALTH = {
    HealthState.OK: Severity.OK,
    HealthState.WARNING: Severity.WARNING,
    HealthState.CRITICAL: Severity.ERROR,
    HealthState.LOST: Severity.ERROR,
    HealthState.UNKNOWN: Severity.ERROR,
}
# Absences that can be fixed; the others are properties of the device.
_FIXABLE = (AbsenceReason.NO_PERMISSION, AbsenceReason.TIMEOUT, AbsenceReason.DRIVER_ERROR)


def seconds(settings: AgentSettings) -> float:
    """Longer than the slowest passes: the runner abandons calls that hang, and stops after a pass without
    new values."""
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
            f"{state.devices_seen} of {len(result.devices)} devices read through {state.source}, "
            f"driver version {state.driver_version or 'unknown'}, {state.duration_seconds or 0:.2f} s"
        )
        yield replace(ok("reading", found, **details), hung=hung)
    else:
        reason = state.errors[0].reason if state.errors else "driver_error"
        found = f"cannot read the driver: {state.reason}"
        yield replace(error("reading", found, examination.advice(reason, subject), **details), hung=hung)
    if not result.devices and not state.up:
        return
    yield from count(examination, subject, hardware, result.devices)
    for device in result.devices:
        yield describe_device(examination, subject, device)
    yield from _fixable_absences(examination, subject, result.devices)
    if state.rejected:
        yield warning(
            "rejected",
            f"{sum(c.count for c in state.rejected)} values of the driver's output were rejected: "
            + ", ".join(f"{c.reason} {c.count}" for c in state.rejected),
            "Save the tool's output, check it with `accelscope parse`, and please report it.",
        )
    yield describe_processes(subject, result.processes)


def read_vendor(examination: VendorExamination, subject: Subject) -> Result:
    changed = threading.Condition()
    runner = make_runner(
        examination.vendor, subject.settings, changed, once=True, errors=stored_errors(subject.settings)
    )
    [result] = read_and_stop([runner], changed)
    return result


def _absent(examination: VendorExamination, subject: Subject, hardware: Hardware, reason: str) -> Finding:
    if not hardware.is_present and not hardware.driver_loaded:
        return note(
            "reading",
            f"nothing to read: {reason}",
            "Nothing if this node has no such device. The agent picks up a driver that is installed later.",
        )
    if hardware.driver_loaded:
        advice = examination.advice("library_absent", subject)
        return error("reading", f"the driver is loaded, but {reason}", advice)
    advice = examination.advice("driver_absent", subject)
    return warning("reading", f"this node has devices, but {reason}", advice)


def count(
    examination: VendorExamination, subject: Subject, hardware: Hardware, devices: tuple[Device, ...]
) -> Iterator[Finding]:
    """Compares the number of devices by reader, PCI, device files and setting."""
    found = {"reader": len(devices)}
    if hardware.is_present:
        found["PCI"] = len(hardware.addresses | hardware.unheld)
    if hardware.device_files is not None:
        found["device files"] = hardware.device_files
    expected = subject.settings.expected_devices
    if expected:
        found["--expected-devices"] = expected
    counts = ", ".join(f"{source} {number}" for source, number in found.items())
    addresses = {device.pci_address for device in devices}
    without_address = [device for device in devices if device.pci_address is None]
    missing = sorted(hardware.addresses - addresses)
    unheld = sorted(hardware.unheld - addresses)
    if without_address and len(without_address) >= len(missing) + len(unheld):
        # A lost device has no address; the addresses that no other device has must be its own.
        if missing or unheld:
            indexes = join_words([str(device.index) for device in without_address])
            counts += f"; device {indexes} is {join_words(missing + unheld)}"
        missing, unheld = [], []
    if missing or len(devices) < expected:
        which = f"; the driver does not list {join_words(missing)}" if missing else ""
        yield error(
            "count", f"{counts}{which}", examination.advice("missing", subject), counts=found, missing=missing
        )
    elif unheld:
        yield warning(
            "count",
            f"{counts}; no driver is bound to {join_words(unheld)}",
            examination.advice("unheld", subject),
            counts=found,
            missing=unheld,
        )
    elif devices:
        yield ok("count", counts, counts=found)
    else:
        yield warning(
            "count",
            f"{counts}: the driver is loaded but lists no device",
            examination.advice("no_devices", subject),
            counts=found,
        )


def describe_device(examination: VendorExamination, subject: Subject, device: Device) -> Finding:
    absent = Counter(absence.reason.value for absence in device.absent)
    health = device.health
    words = [device.model or "unknown model", device.id, health.state.value]
    if health.reason:
        words[-1] += f" ({health.reason})"
    errors = (*_explained_errors(device), *_link_errors(subject, device))
    words += [
        f"{_error_name(e)} {pluralize(e['count'], 'time', 'times')} ({e['meaning']})"
        for e in errors
        if e["severity"] != "info" and _error_name(e) not in (health.reason or "")
    ]
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
            "errors": errors,
            "absent": {
                reason: sorted(a.field for a in device.absent if a.reason.value == reason)
                for reason in absent
            },
        },
    )


def _explained_errors(device: Device) -> Iterator[dict[str, Any]]:
    """The errors that the driver counts, with what the vendor's catalogue says about their codes."""
    for counted in device.errors:
        entry = declarations()[device.vendor].error_code(counted.code) if counted.count else None
        if entry is not None:
            yield _explained(counted.kind, entry, counted.count)


def _link_errors(subject: Subject, device: Device) -> Iterator[dict[str, Any]]:
    """The errors of the PCIe link since the node started, as the kernel counts them."""
    folder = f"{subject.paths.sys}/bus/pci/devices/{device.pci_address}"
    counts: Counter[str] = Counter()
    for file in _AER_FILES:
        for line in (read_optional(f"{folder}/{file}") or "").splitlines():
            name, _, number = line.rpartition(" ")
            if number.isdecimal():
                counts[name] += int(number)
    for name, count in counts.items():
        entry = pcie_errors.error_code(name) if count else None
        if entry is not None:
            yield _explained("aer", entry, count)


def _explained(kind: str, entry: ErrorCode, count: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "code": entry.code,
        "count": count,
        "meaning": entry.meaning,
        "severity": entry.severity,
        "action": entry.action,
        "source": entry.source,
    }


def _error_name(error: dict[str, Any]) -> str:
    """`XID 48`; a code that begins with its kind stands for itself."""
    kind, code = error["kind"], error["code"]
    return code if code.startswith(kind) else f"{kind.upper()} {code}"


def _advice(examination: VendorExamination, subject: Subject, device: Device) -> str:
    """The vendor's advice, whose commands contain the index. If the cause is an error code: first the action
    of that code."""
    reason = device.health.reason or ""
    if device.stale:
        reason = reason.partition(":")[0]  # `timeout: no answer within 2 s`
    advice = examination.advice(reason, subject)
    action = device.health.action
    # The last word of `XID 48 (uncorrectable memory error)` before the meaning. The error may be an earlier
    # agent's, so the driver need not count it.
    code = reason.partition(" (")[0].rpartition(" ")[2]
    if action is not None and declarations()[device.vendor].error_code(code) is not None:
        commands = "" if advice == examination.advice("", subject) else f" {advice}"
        advice = f"{action}.{commands}"
    return advice if device.index is None else advice.replace("INDEX", str(device.index))


def _fixable_absences(
    examination: VendorExamination, subject: Subject, devices: tuple[Device, ...]
) -> Iterator[Finding]:
    for reason in _FIXABLE:
        fields = sorted({a.field for device in devices for a in device.absent if a.reason is reason})
        if fields:
            yield warning(
                "absent",
                f"{reason.value}: {', '.join(fields)}",
                examination.advice(reason.value, subject),
                reason=reason.value,
                fields=fields,
            )


def describe_processes(subject: Subject, processes: tuple[Process, ...]) -> Finding:
    table = ProcessTable(subject.paths.proc, Path(subject.settings.passwd_file))
    hosts = table.look_up(process.pid for process in processes)
    total = len(processes)
    named = sum(process.name is not None or process.pid in hosts for process in processes)
    owned = sum(process.user is not None or process.pid in hosts for process in processes)
    details = {"processes": total, "with_name": named, "with_user": owned}
    if total == 0:
        return ok("on devices", "no process uses a device now", **details)
    found = f"{pluralize(total, 'process', 'processes')}, {named} with a name, {owned} with a user"
    if owned == total:
        return ok("on devices", found, **details)
    return warning(
        "on devices",
        found,
        "Users are read from the node's /proc: set hostPID: true in a pod, or --proc-root if /proc is "
        "mounted elsewhere. A process that has just ended is no problem.",
        **details,
    )
