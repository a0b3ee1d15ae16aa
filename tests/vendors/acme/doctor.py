"""What `accelscope doctor` checks where Acme cards may be, and what it advises."""

from collections.abc import Iterator

from accelscope.doctor.check import Check, Finding, Subject, note, ok
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.vendors.common.files import entries
from accelscope.vendors.common.tool import find_program

from . import ACME_SMI

_BY_REASON = {
    "driver_absent": "Install Acme's driver on the node.",
    "driver_error": "Run `acme-smi query` by hand, and see `dmesg -T | grep acme`.",
    "tool_timeout": "The driver hangs: drain the node and reboot it.",
    "lost": "The card is gone: see `dmesg -T | grep acme`, then reseat it.",
}


def _tool(subject: Subject) -> Iterator[Finding]:
    program = subject.value(ACME_SMI)
    place = find_program(program)
    yield note("acme-smi", f"{program} not found") if place is None else ok("acme-smi", place, path=place)


def _hardware(subject: Subject) -> Hardware:
    files = [name for name in entries(str(subject.paths.dev)) if name.startswith("acme")]
    return Hardware(device_files=len(files), driver_loaded=bool(files))


def _advice(reason: str, subject: Subject) -> str:
    return _BY_REASON.get(reason, "See what `acme-smi query` prints.")


EXAMINATION = VendorExamination(Vendor("acme"), (Check("acme-smi", _tool),), _hardware, _advice)
