"""Hardware, kernel module and device files: what must be there before any library can work."""

import errno
import grp
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor import pci
from accelscope.doctor.finding import Finding, error, note, ok, sentence, warning
from accelscope.doctor.nvidia import advice
from accelscope.doctor.subject import Subject
from accelscope.doctor.vendors import Hardware
from accelscope.readers.contract import Paths
from accelscope.readers.nvidia.nvml import PCI_CODES
from accelscope.readers.pci import PciDevice, pci_devices

_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+([0-9]+(?:\.[0-9]+)+)")
_DEVICE_FILE = re.compile(r"nvidia[0-9]+")
_CONTROL = "nvidiactl"


def gpus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, *PCI_CODES) or ()


def module_version(paths: Paths) -> str | None:
    """Of the module that is loaded; None: none is."""
    try:
        text = (paths.proc / "driver/nvidia/version").read_text(errors="replace")
        match = _VERSION.search(text)
        if match is not None:
            return match[1]
    except OSError:
        pass  # a container may lack it; /sys is the other place
    try:
        return (paths.sys / "module/nvidia/version").read_text(errors="replace").strip() or None
    except OSError:
        return None


def device_files(paths: Paths) -> list[Path]:
    """One a GPU, without the one for the driver as a whole."""
    try:
        found = [entry for entry in paths.dev.iterdir() if _DEVICE_FILE.fullmatch(entry.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: int(path.name[len("nvidia") :]))


def hardware(subject: Subject) -> Hardware:
    paths = subject.paths
    found = gpus(paths)
    files = device_files(paths)
    return Hardware(
        addresses=frozenset(gpu.address for gpu in found if gpu.driver == "nvidia"),
        unheld=frozenset(gpu.address for gpu in found if gpu.driver is None),
        device_files=len(files) if files else None,
        driver_loaded=module_version(paths) is not None,
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    found = pci_devices(subject.paths.sys, *PCI_CODES)
    yield from pci.on_pci(
        subject.paths.sys,
        found,
        what="GPUs",
        none="no NVIDIA GPU on PCI (a board with an integrated one has it elsewhere)",
        unless="; a machine without PCI has none",
    )
    foreign = [gpu for gpu in found or () if gpu.driver in ("nouveau", "nova_core", "nova")]
    if foreign:
        yield warning(
            "pci",
            f"{sentence([gpu.address for gpu in foreign])} held by {foreign[0].driver}, which has no NVML",
            f"Blacklist {foreign[0].driver} (/etc/modprobe.d), install NVIDIA's driver and reboot.",
        )


def module(subject: Subject) -> Iterator[Finding]:
    version = module_version(subject.paths)
    if version is not None:
        yield ok("module", f"nvidia {version} is loaded", version=version)
    elif not all(map(pci.is_passed_on, gpus(subject.paths))):
        yield warning(
            "module",
            "the kernel module nvidia is not loaded, though there are GPUs",
            f"{advice.MODULE} Not installed at all? {advice.DRIVER}",
        )
    else:
        yield note("module", "the kernel module nvidia is not loaded")


def files(subject: Subject) -> Iterator[Finding]:
    """NVML opens one file for the driver and one for each GPU."""
    paths = subject.paths
    control = paths.dev / _CONTROL
    singles = device_files(paths)
    there = [*([control] if control.exists() else []), *singles]
    if not there:
        yield _none(subject)
        return
    closed = list(_closed(subject, there))
    why_useless = _why_useless(paths, there) if closed else None
    if why_useless is not None:
        yield note(
            "device files",
            f"{sentence([path.name for path in there])} in {paths.dev}: {why_useless}",
            files=[str(path) for path in there],
        )
        return
    yield from closed
    missing = [] if control in there else [control.name]
    expected = sum(gpu.driver == "nvidia" for gpu in gpus(paths))
    if len(singles) < expected:
        missing.append(f"{expected - len(singles)} of {expected} GPUs' files")
    names = sentence([path.name for path in there])
    if missing:
        yield warning(
            "device files",
            f"{names}; missing: {sentence(missing)}",
            advice.device_files_missing(subject),
            files=[str(path) for path in there],
        )
    elif not closed:
        yield ok("device files", f"{names} in {paths.dev}", files=[str(path) for path in there])


def _why_useless(paths: Paths, there: list[Path]) -> str | None:
    """Why files that do not open are nothing to repair; None: they are.

    The library makes these files as root even where there is no driver, and never removes them.
    """
    if module_version(paths) is not None:
        return None
    found = pci_devices(paths.sys, *PCI_CODES)
    if found == ():
        return "left over, with neither a GPU on PCI nor the kernel module"
    codes = {problem.errno for problem in map(why_closed, there) if problem is not None}
    if found is None and codes <= {errno.ENXIO, errno.ENODEV}:
        return "left over, or the driver is not visible here: neither PCI nor the kernel module can be seen"
    return None


def _none(subject: Subject) -> Finding:
    paths = subject.paths
    found = f"no {_CONTROL} and no nvidia0 in {paths.dev}"
    if (paths.dev / "dxg").exists():
        return ok("device files", "dxg: Windows' own, for all GPUs (WSL)")
    if module_version(paths) is None:
        return note("device files", f"{found}, as is to be expected without the module")
    return error(
        "device files", f"{found}, though the module is loaded", advice.device_files_missing(subject)
    )


def why_closed(path: Path) -> OSError | None:
    """Try what NVML does: rights alone do not tell of a container's device rules."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as problem:
        return problem
    return None


def _closed(subject: Subject, paths: list[Path]) -> Iterator[Finding]:
    """Files that are closed in the same way are told together."""
    alike: dict[tuple[int | None, int, int], list[Path]] = {}
    for path in paths:
        problem = why_closed(path)
        if problem is not None:
            status = path.stat()
            alike.setdefault((problem.errno, status.st_mode, status.st_gid), []).append(path)
    for (code, mode, gid), members in alike.items():
        group = _group(gid)
        yield error(
            "device files",
            f"{sentence([str(path) for path in members])} ({stat.filemode(mode)}, group {group}): "
            f"{os.strerror(code or 0)}",
            _opening_advice(subject, code, group, gid),
            files=[str(path) for path in members],
        )


def _opening_advice(subject: Subject, code: int | None, group: str, gid: int) -> str:
    if code == errno.EACCES:
        return advice.no_permission(subject, group, gid)
    if code == errno.EPERM:  # the file's rights would do; a control group's device rules forbid it
        return advice.advice("driver_error", subject) if subject.in_container else advice.DEVICE_RULES
    return advice.advice("lost", subject)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
