"""Hardware, kernel module, what may be read of it, and whose processes can be seen."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor import pci
from accelscope.doctor.amd import advice
from accelscope.doctor.finding import Finding, counted, error, note, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.doctor.vendors import Hardware
from accelscope.readers.amd.drm import Cards, driver_loaded, driver_version
from accelscope.readers.amd.fdinfo import OpenFiles
from accelscope.readers.amd.kfd import ComputeDriver
from accelscope.readers.contract import Paths
from accelscope.readers.files import entries
from accelscope.readers.pci import DISPLAY_CLASS, PROCESSING_CLASS, PciDevice, pci_devices

_PCI_CODES = (0x1002, DISPLAY_CLASS, PROCESSING_CLASS)  # AMD's vendor number
_DRIVER = "amdgpu"
_OLD_DRIVER = "radeon"
_RENDER_NODE = re.compile(r"renderD[0-9]+")
# Of what nearly every GPU has; the rest is the reader's to try.
_FILES = ("gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "current_link_speed")


def gpus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, *_PCI_CODES) or ()


def hardware(subject: Subject) -> Hardware:
    found = gpus(subject.paths)
    return Hardware(
        addresses=frozenset(gpu.address for gpu in found if gpu.driver == _DRIVER),
        unheld=frozenset(gpu.address for gpu in found if gpu.driver is None),
        driver_loaded=driver_loaded(subject.paths.sys),
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    found = pci_devices(subject.paths.sys, *_PCI_CODES)
    yield from pci.on_pci(subject.paths.sys, found, what="GPUs", none="no AMD GPU on PCI")
    old = [gpu.address for gpu in found or () if gpu.driver == _OLD_DRIVER]
    if old:
        yield note(
            "pci",
            f"{sentence(old)} held by {_OLD_DRIVER}, the driver of chips before 2012: they are not read",
        )


def module(subject: Subject) -> Iterator[Finding]:
    paths = subject.paths
    if driver_loaded(paths.sys):
        version = driver_version(paths.sys, paths.proc)
        yield ok("module", f"{_DRIVER} {version or 'of unknown version'} is loaded", version=version)
    elif not all(map(pci.is_passed_on, gpus(paths))):
        yield warning(
            "module",
            f"the kernel module {_DRIVER} is not loaded, though there are GPUs",
            f"{advice.MODULE} Not installed at all? {advice.DRIVER}",
        )
    else:
        yield note("module", f"the kernel module {_DRIVER} is not loaded")


def files(subject: Subject) -> Iterator[Finding]:
    """Opened, not read: that costs a sleeping GPU nothing."""
    cards = Cards(subject.paths.sys).find()
    if not cards:
        return
    closed = [
        f"{card.name}/{name}" for card in cards for name in _FILES if _is_closed(Path(card.folder) / name)
    ]
    where = subject.paths.sys / "class/drm"
    if closed:
        yield error(
            "files",
            f"this user may not read {counted(len(closed), 'file', 'files')} under {where}: {closed[0]} ...",
            advice.no_permission(subject),
            files=closed,
        )
    else:
        yield ok("files", f"those of {counted(len(cards), 'GPU', 'GPUs')} under {where} may be read")


def device_files(subject: Subject) -> Iterator[Finding]:
    """The agent does without them; AMD's tools do not. They are not opened: that would wake a GPU."""
    dev = subject.paths.dev
    if not Cards(subject.paths.sys).find():
        return
    nodes = [
        dev / "kfd",
        *(dev / "dri" / name for name in entries(f"{dev}/dri") if _RENDER_NODE.fullmatch(name)),
    ]
    there = [path for path in nodes if path.exists()]
    closed = [path for path in there if not os.access(path, os.R_OK | os.W_OK, effective_ids=True)]
    if closed:
        yield warning(
            "device files",
            f"{sentence([str(path) for path in closed])} may not be opened by this user: amd-smi tells less",
            advice.no_permission(subject),
            files=[str(path) for path in closed],
        )
    elif len(there) > 1:
        yield ok("device files", f"{sentence([path.name for path in there])} in {dev}")
    else:
        yield note(
            "device files",
            f"no kfd and no dri/renderD128 in {dev}: amd-smi needs them, the driver's files in /sys do not",
            advice.no_permission(subject),
        )


def processes(subject: Subject) -> Iterator[Finding]:
    if not Cards(subject.paths.sys).find():
        return
    open_files = OpenFiles(subject.paths.proc)
    holders = {file.pid for files in open_files.find().values() for file in files}
    computing = ComputeDriver(subject.paths.sys).pids()
    found = f"{len(computing)} compute, {len(holders)} have a GPU's device file open"
    if open_files.refused:
        yield note(
            "processes",
            f"{found}; of {open_files.refused} others the open files may not be seen: graphics processes of "
            "other users are not told",
            "Compute processes are seen without it. For the others: root, and in a pod the capability "
            "SYS_PTRACE.",
            refused=open_files.refused,
        )
    else:
        yield ok("processes", found)


def _is_closed(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except PermissionError:
        return True
    except OSError:
        return False  # this GPU has it not, or the reading tells more
    return False
