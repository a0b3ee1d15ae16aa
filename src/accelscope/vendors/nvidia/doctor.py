"""What `accelscope doctor` checks where NVIDIA GPUs may be, and what it advises.

An advice is a sentence or two, with the commands; INDEX stands for the device's index.
"""

import ctypes
import errno
import grp
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, warning
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.vendors.common.contract import Paths, ReaderError
from accelscope.vendors.common.files import PciDevice, pci_devices
from accelscope.vendors.common.tool import Tool
from accelscope.vendors.nvidia import NVIDIA_SMI, NVML_LIBRARY
from accelscope.vendors.nvidia.nvml import PCI_CODES
from accelscope.vendors.nvidia.nvml_library import (
    DEFAULT_LIBRARY,
    NOT_SUPPORTED,
    USUAL_PLACES,
    driver_error,
    find_library,
    load_binding,
)

_KERNEL_LOG = "`dmesg -T | grep -iE 'nvrm|xid'`"
_RESET = "`nvidia-smi --gpu-reset -i INDEX`"
_CONTAINER = (
    "Give the pod runtimeClassName: nvidia and the environment NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=utility"
)
MODULE = f"`modprobe nvidia`; if that fails, {_KERNEL_LOG} says why (no module for this kernel, Secure Boot)."
DRIVER = (
    "Install NVIDIA's driver on the node, or let the GPU Operator do it: see that the node has the label "
    "feature.node.kubernetes.io/pci-10de.present=true and not nvidia.com/gpu.deploy.driver=false."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. Meanwhile the agent keeps what still "
    "answers fresh."
)
DEVICE_RULES = "The unit's device rules forbid it: `DeviceAllow=char-195 rw` in the systemd unit."
_FAILED_TO_START = (
    f"See {_KERNEL_LOG} for GPUs that failed to start (RmInitAdapter) or are lost; in a container"
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_not_loaded": (f"{MODULE} If this node has no GPU, take it out of the DaemonSet (nodeSelector)."),
    "version_mismatch": (
        "The driver's files were upgraded under a running module: reboot the node, or stop all that uses the "
        "GPUs, then `rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia` and `modprobe nvidia`. Restart "
        "containers that use the GPUs, the agent's too, so that they get the node's new library."
    ),
    "library_unusable": (
        "Is it whole, and of this machine's architecture and C library? Reinstall the driver's library; an "
        "image with musl (Alpine) cannot load it."
    ),
    "binding_missing": "`pip install nvidia-ml-py` into the Python that runs accelscope.",
    "driver_reloaded": "The driver was reloaded while it was asked: run doctor again.",
    "driver_error": (
        "In a container this is what remains after `systemctl daemon-reload` on the node, which takes the "
        f"device files away: delete the pod so that it is made anew. Otherwise see {_KERNEL_LOG}."
    ),
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other devices used up the time: mend those first, or raise --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus: see {_KERNEL_LOG} for XID 79, drain the node and reboot it. If it does "
        "not come back, power the machine off, reseat the card, and check its power cable and cooling."
    ),
    "reset_required": (f"Stop what runs on it, then {_RESET}; reboot the node if that is refused."),
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"{_FAILED_TO_START}, see that NVIDIA_VISIBLE_DEVICES is all.",
    "no_devices": f"{_FAILED_TO_START}, see that NVIDIA_VISIBLE_DEVICES is all.",
    "unheld": f"Is it too old or too new for this driver, or kept out on purpose? {_KERNEL_LOG} names it.",
    "insufficient_power": "The card's power cables are not connected, or not all of them.",
    "library_missing": "nvidia-smi itself does not find libnvidia-ml.so.1: install the driver's library.",
    "tool_missing": "Name the tool with --nvidia-smi-path.",
    "tool_killed": (
        f"Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash: {_KERNEL_LOG}."
    ),
    "tool_not_started": "See that the file that --nvidia-smi-path names is a program of this machine.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a device's health; the first that fits.
_BY_WORD = (
    ("replacing", "Drain the node, and have the board replaced: `nvidia-smi -q -i INDEX -d ROW_REMAPPER`."),
    (
        "slowed down",
        "`nvidia-smi -q -i INDEX -d PERFORMANCE,TEMPERATURE,POWER`: look at fans, air and supply.",
    ),
    (
        "to be remapped",
        f"It works on. When the node is drained: {_RESET}, which puts spare rows in their place.",
    ),
    (
        "uncorrected",
        f"Jobs may have failed. Once the node is drained, {_RESET}; if they go on, replace the board.",
    ),
    ("XID", f"{_KERNEL_LOG} has it with its process; NVIDIA's list of XIDs says what each number means."),
    ("questions with an error", f"See {_KERNEL_LOG}; drain the GPU, then {_RESET}, or reboot the node."),
    (
        "IMEX",
        "End the jobs of its NVLink domain, then restart nvidia-imex on the domain's nodes: "
        "`nvidia-imex-ctl -N` shows them, `systemctl restart nvidia-imex`.",
    ),
    ("reboot", "Drain the node and reboot it."),
    ("drain peer-to-peer", "Let the jobs that use NVLink between GPUs end, then run doctor again."),
    ("reset of the bus", "Drain the node and reboot it."),
    ("reset", f"Drain the GPU, then {_RESET}; reboot the node if that is refused."),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `nvidia-smi` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason == "library_absent":
        return library_absent(subject)
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def library_absent(subject: Subject) -> str:
    if subject.in_container:
        return (
            f"{_CONTAINER}; or mount the driver's root /run/nvidia/driver (GPU Operator) and name the "
            "library in it with --nvml-library."
        )
    return (
        "Install the driver's library (Debian libnvidia-ml1, Ubuntu libnvidia-compute, Red Hat "
        "nvidia-driver-libs), or name it with --nvml-library."
    )


def no_permission(subject: Subject, group: str | None = None, gid: int | None = None) -> str:
    """`group` and `gid` are those of a device file, where one is the obstacle."""
    if subject.in_container:
        way = f"supplementalGroups: [{gid}] in the pod's securityContext" if gid else "run the agent as root"
        return f"{_CONTAINER}; if the device files are there but closed to this user, {way}."
    return (
        f"Add the agent's user to the group {group or 'of the device files'} "
        f"(SupplementaryGroups={group or 'GROUP'} in the systemd unit, with DeviceAllow=char-195 rw)."
    )


def device_files_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_CONTAINER}."
    return "Run `nvidia-smi` once as root, or enable nvidia-persistenced: they make the device files."


# Hardware, kernel module and device files: what must be there before any library can work.

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
    yield from vendors.on_pci(
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
            f"{join_words([gpu.address for gpu in foreign])} held by {foreign[0].driver}, which has no NVML",
            f"Blacklist {foreign[0].driver} (/etc/modprobe.d), install NVIDIA's driver and reboot.",
        )


def module(subject: Subject) -> Iterator[Finding]:
    version = module_version(subject.paths)
    if version is not None:
        yield ok("module", f"nvidia {version} is loaded", version=version)
    elif not all(map(vendors.is_passed_through, gpus(subject.paths))):
        yield warning(
            "module",
            "the kernel module nvidia is not loaded, though there are GPUs",
            f"{MODULE} Not installed at all? {DRIVER}",
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
            f"{join_words([path.name for path in there])} in {paths.dev}: {why_useless}",
            files=[str(path) for path in there],
        )
        return
    yield from closed
    missing = [] if control in there else [control.name]
    expected = sum(gpu.driver == "nvidia" for gpu in gpus(paths))
    if len(singles) < expected:
        missing.append(f"{expected - len(singles)} of {expected} GPUs' files")
    names = join_words([path.name for path in there])
    if missing:
        yield warning(
            "device files",
            f"{names}; missing: {join_words(missing)}",
            device_files_missing(subject),
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
    return error("device files", f"{found}, though the module is loaded", device_files_missing(subject))


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
            f"{join_words([str(path) for path in members])} ({stat.filemode(mode)}, group {group}): "
            f"{os.strerror(code or 0)}",
            _opening_advice(subject, code, group, gid),
            files=[str(path) for path in members],
        )


def _opening_advice(subject: Subject, code: int | None, group: str, gid: int) -> str:
    if code == errno.EACCES:
        return no_permission(subject, group, gid)
    if code == errno.EPERM:  # the file's rights would do; a control group's device rules forbid it
        return advice("driver_error", subject) if subject.in_container else DEVICE_RULES
    return advice("lost", subject)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


# The NVML library, its Python binding, whether it starts, and the tool that stands in for it.

_PACKAGE = "nvidia-ml-py"
_XID_EVENTS = 0x8  # nvmlEventTypeXidCriticalError of nvml.h
_MAPS = Path("/proc/self/maps")  # of this very process, whatever --proc-root says
_FILE_VERSION = re.compile(r"\.so\.([0-9]+(?:\.[0-9]+)+)$")


def library(subject: Subject) -> Iterator[Finding]:
    wanted = subject.value(NVML_LIBRARY)
    place = find_library(wanted)
    if place is None:
        yield _missing(subject, wanted)
        return
    try:
        ctypes.CDLL(place)
    except OSError as problem:
        yield error("library", f"{place} does not load: {problem}", advice("library_unusable", subject))
        return
    file = _file_of(place)
    yield ok("library", f"{file} loads", path=str(file), asked_for=wanted)


def binding(subject: Subject) -> Iterator[Finding]:
    from importlib import metadata  # noqa: PLC0415 - brings email, a megabyte

    if find_spec("pynvml") is None:
        needed = find_library(subject.value(NVML_LIBRARY)) is not None
        yield (error if needed else note)(
            "binding",
            f"the Python package {_PACKAGE} is not installed: NVML cannot be used",
            advice("binding_missing", subject),
        )
        return
    try:
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield note(
            "binding",
            f"the module pynvml is there, but not as the package {_PACKAGE}",
            f"If values are missing, `pip install {_PACKAGE}`: others of that module name are older.",
        )
        return
    yield ok("binding", f"{_PACKAGE} {version}", version=version)


def nvml(subject: Subject) -> Iterator[Finding]:
    """Whether it starts, and whether library and kernel module are of one version."""
    if find_library(subject.value(NVML_LIBRARY)) is None or find_spec("pynvml") is None:
        return  # said above
    loaded = module_version(subject.paths)
    versions: dict[str, str | None] = {"library": None, "module": loaded}
    try:
        library = load_binding(subject.value(NVML_LIBRARY))
        versions["library"] = _library_version(library, subject)
        with _started(library):
            driver = str(library.nvmlSystemGetDriverVersion())
            versions["library"] = versions["library"] or _library_version(library, subject)
    except ReaderError as problem:
        yield error(
            "nvml",
            f"{problem}{_side_by_side(versions) if problem.reason == 'version_mismatch' else ''}",
            advice(problem.reason, subject),
            reason=problem.reason,
        )
        return
    versions["driver"] = driver
    if versions["library"] not in (None, driver) or loaded not in (None, driver):
        yield warning(
            "nvml",
            f"it starts, but versions differ: driver {driver}{_side_by_side(versions)}",
            advice("version_mismatch", subject),
            **versions,
        )
    else:
        yield ok("nvml", f"it starts; library, module and driver are {driver}", **versions)


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.value(NVIDIA_SMI)
    place = Tool(program, timeout_seconds=1).find()
    if place is not None:
        yield ok("nvidia-smi", f"{place}, for when there is no library", path=place)
    elif Path(program).is_file():
        yield warning(
            "nvidia-smi", f"{program} is there but cannot be executed", f"chmod a+x {program}.", path=program
        )
    else:
        yield note("nvidia-smi", f"{program} not found; it is needed only where the library is missing")


def xids(subject: Subject) -> Iterator[Finding]:
    """XIDs are told only to those who listen: for which GPUs that does not work."""
    if find_library(subject.value(NVML_LIBRARY)) is None or find_spec("pynvml") is None:
        return
    try:
        library = load_binding(subject.value(NVML_LIBRARY))
        with _started(library):
            deaf, listening = _deaf_to_xids(library)
    except ReaderError:
        return  # said above
    if deaf:
        yield note(
            "xids",
            "errors with a code are not counted for GPU "
            + "; ".join(f"{i}: {why}" for i, why in deaf.items()),
            not_counted=list(deaf),
        )
    elif listening:
        yield ok(
            "xids", f"{listening} GPUs tell them; they are counted from the agent's start", counted=listening
        )


def _deaf_to_xids(library: Any) -> tuple[dict[int, str], int]:
    deaf: dict[int, str] = {}
    listening = 0
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            told = library.nvmlDeviceGetSupportedEventTypes(handle) & _XID_EVENTS
        except library.NVMLError as problem:
            deaf[index] = "its driver has no events" if problem.value == NOT_SUPPORTED else str(problem)
            continue
        if told:
            listening += 1
        else:
            deaf[index] = "its driver does not tell them"
    return deaf, listening


@contextmanager
def _started(library: Any) -> Iterator[None]:
    try:
        library.nvmlInit()
        try:
            yield
        finally:
            library.nvmlShutdown()
    except library.NVMLError as problem:
        raise driver_error(problem, "NVML does not start") from None


def _library_version(library: Any, subject: Subject) -> str | None:
    """As the driver counts: NVML's own version puts CUDA's before it (12.550.54.15). It can be had from a
    library that does not start, or from the name of its file."""
    try:
        return str(library.nvmlSystemGetNVMLVersion()).partition(".")[2] or None
    except library.NVMLError:
        place = find_library(subject.value(NVML_LIBRARY))
        match = _FILE_VERSION.search(str(_file_of(place))) if place else None
        return match[1] if match else None


def _side_by_side(versions: dict[str, str | None]) -> str:
    known = [f"{what} {versions[what]}" for what in ("library", "module") if versions[what]]
    return f" ({join_words(known)})" if known else ""


def _file_of(place: str) -> Path:
    """The file behind the name: the loader has its own ways, so the process is asked what it has mapped."""
    if "/" in place:
        return Path(place).resolve()
    for line in _MAPS.read_text(errors="replace").splitlines():
        path = Path(line.partition("/")[2])
        if path.name.startswith(place.partition(".so")[0]):
            return Path("/") / path
    return Path(place)


def _missing(subject: Subject, wanted: str) -> Finding:
    """How bad it is depends on what else there is: without hardware, it is missed by nobody."""
    tried = [wanted, *(USUAL_PLACES if wanted == DEFAULT_LIBRARY else ())]
    todo = library_absent(subject)
    found = f"{wanted} is neither known to the loader nor in the usual places"
    if wanted != DEFAULT_LIBRARY:
        found = f"{wanted}, named by --nvml-library, is not there"
        todo = f"Correct --nvml-library, or leave it out. {todo}"
    if module_version(subject.paths) is None:
        if not gpus(subject.paths):
            return note("library", found, tried=tried)
        return warning("library", found, DRIVER, tried=tried)
    stand_in = Tool(subject.value(NVIDIA_SMI), timeout_seconds=1).find()
    if stand_in is not None:
        return warning("library", f"{found}; nvidia-smi is used, which tells less", todo, tried=tried)
    return error("library", found, todo, tried=tried)


# The checks of this vendor, in the order in which one thing rests on another.


def _driver_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout


def _devices_seconds(settings: AgentSettings) -> float:
    return min(settings.reader_timeout, 2 * settings.device_timeout)


EXAMINATION = VendorExamination(
    Vendor("nvidia"),
    (
        Check("pci", on_pci),
        Check("module", module),
        Check("device files", files, timeout_advice=HANG),
        Check("library", library, _driver_seconds, HANG),
        Check("binding", binding),
        Check("nvml", nvml, _driver_seconds, HANG),
        Check("xids", xids, _devices_seconds, HANG, skip_if_hung="nvml"),
        Check("nvidia-smi", tool),
    ),
    hardware,
    advice,
)
