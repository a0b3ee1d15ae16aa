"""Hardware, kernel modules and device files: what must be there before npu-smi can work."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor.ascend import advice
from accelscope.doctor.finding import Finding, error, note, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.doctor.vendors import Hardware
from accelscope.readers.contract import Paths
from accelscope.readers.pci import PROCESSING_CLASS, PciDevice, pci_devices

_VENDOR_CODE = 0x19E5
_DEVICE_FILE = re.compile(r"davinci[0-9]+")
_CONTROL_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_MODULES = re.compile(r"drv_davinci|drv_devmng|ascend_")
_PASSED_ON = "vfio"  # drivers whose name begins so hand a device to a virtual machine


def npus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, _VENDOR_CODE, PROCESSING_CLASS) or ()


def modules(paths: Paths) -> list[str]:
    return sorted(name for name in _names(paths.sys / "module") if _MODULES.match(name))


def device_files(paths: Paths) -> list[str]:
    """One a chip, without those for the driver as a whole."""
    found = [name for name in _names(paths.dev) if _DEVICE_FILE.fullmatch(name)]
    return sorted(found, key=lambda name: int(name.removeprefix("davinci")))


def is_loaded(paths: Paths) -> bool:
    return bool(modules(paths)) or (paths.dev / _CONTROL_FILES[0]).exists()


def hardware(subject: Subject) -> Hardware:
    paths = subject.paths
    found = npus(paths)
    files = device_files(paths)
    passed_on = {npu.address for npu in found if (npu.driver or "").startswith(_PASSED_ON)}
    return Hardware(
        addresses=frozenset(npu.address for npu in found if npu.driver) - passed_on,
        unheld=frozenset(npu.address for npu in found if npu.driver is None),
        device_files=len(files) if files else None,
        driver_loaded=is_loaded(paths),
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    sys = subject.paths.sys
    found = pci_devices(sys, _VENDOR_CODE, PROCESSING_CLASS)
    if found is None:
        yield note(
            "pci",
            f"{sys}/bus/pci/devices is not there: NPUs cannot be counted without their driver",
            "In a pod, mount the node's /sys and name it with --sys-root; some NPUs are not on PCI at all.",
        )
    elif not found:
        yield note("pci", "no NPU of Huawei on PCI (some are connected otherwise)")
    else:
        details = {npu.address: {"device": npu.device_code, "driver": npu.driver} for npu in found}
        yield ok("pci", f"{len(found)}: {', '.join(npu.address for npu in found)}", devices=details)


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


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
