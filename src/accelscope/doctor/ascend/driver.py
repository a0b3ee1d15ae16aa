"""Hardware, kernel modules and device files: what must be there before npu-smi can work."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor import pci
from accelscope.doctor.ascend import advice
from accelscope.doctor.finding import Finding, error, note, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.doctor.vendors import Hardware
from accelscope.readers.contract import Paths
from accelscope.readers.files import entries
from accelscope.readers.pci import PROCESSING_CLASS, PciDevice, pci_devices

_PCI_CODES = (0x19E5, PROCESSING_CLASS)  # Huawei's vendor number, processing accelerators
_DEVICE_FILE = re.compile(r"davinci[0-9]+")
_CONTROL_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_MODULES = re.compile(r"drv_davinci|drv_devmng|ascend_")


def npus(paths: Paths) -> tuple[PciDevice, ...]:
    """This node's own: not those that it passed on to a virtual machine."""
    return tuple(npu for npu in pci_devices(paths.sys, *_PCI_CODES) or () if not pci.is_passed_on(npu))


def modules(paths: Paths) -> list[str]:
    return [name for name in entries(f"{paths.sys}/module") if _MODULES.match(name)]


def device_files(paths: Paths) -> list[str]:
    """One a chip, without those for the driver as a whole."""
    found = [name for name in entries(str(paths.dev)) if _DEVICE_FILE.fullmatch(name)]
    return sorted(found, key=lambda name: int(name.removeprefix("davinci")))


def is_loaded(paths: Paths) -> bool:
    return bool(modules(paths)) or (paths.dev / _CONTROL_FILES[0]).exists()


def hardware(subject: Subject) -> Hardware:
    paths = subject.paths
    found = npus(paths)
    files = device_files(paths)
    return Hardware(
        addresses=frozenset(npu.address for npu in found if npu.driver),
        unheld=frozenset(npu.address for npu in found if npu.driver is None),
        device_files=len(files) if files else None,
        driver_loaded=is_loaded(paths),
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    yield from pci.on_pci(
        subject.paths.sys,
        pci_devices(subject.paths.sys, *_PCI_CODES),
        what="NPUs",
        none="no NPU of Huawei on PCI (some are connected otherwise)",
        unless="; some NPUs are not on PCI at all",
    )


def module(subject: Subject) -> Iterator[Finding]:
    found = modules(subject.paths)
    if found:
        yield ok("module", f"{sentence(found)} loaded", modules=found)
    elif npus(subject.paths):
        yield warning("module", "no kernel module of Ascend is loaded, though there are NPUs", advice.MODULE)
    else:
        yield note("module", "no kernel module of Ascend is loaded")


def files(subject: Subject) -> Iterator[Finding]:
    dev = subject.paths.dev
    chips = device_files(subject.paths)
    there = [name for name in _CONTROL_FILES if (dev / name).exists()]
    if not chips and not there:
        found = f"no davinci_manager and no davinci0 in {dev}"
        if modules(subject.paths):
            yield error(
                "device files", f"{found}, though the driver is loaded", advice.device_files_missing(subject)
            )
        else:
            yield note("device files", f"{found}, as is to be expected without the driver")
        return
    closed = [name for name in (*there, *chips) if _is_closed(dev / name)]
    missing = [name for name in _CONTROL_FILES if name not in there]
    if closed:
        yield error(
            "device files",
            f"{sentence(closed)} in {dev} may not be opened by this user",
            advice.no_permission(subject),
            files=closed,
        )
    if missing or not chips:
        lacking = sentence([*missing, *([] if chips else ["davinci0"])])
        yield warning("device files", f"missing in {dev}: {lacking}", advice.device_files_missing(subject))
    elif not closed:
        yield ok("device files", f"{len(chips)} of chips, and {sentence(there)}, in {dev}", files=chips)


def _is_closed(path: Path) -> bool:
    """Try what the driver's library does: rights alone do not tell of a container's device rules."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as problem:
        return problem.errno in (errno.EACCES, errno.EPERM)
    return False
