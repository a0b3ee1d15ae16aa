"""The checks of `accelscope doctor` for NVIDIA GPUs, and its advice.

In an advice text, INDEX stands for the index of the device.
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
from accelscope.doctor.cross_check import CheckedTool, CrossCheck, ToolCommand
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.vendors.common.contract import Paths, ReaderError
from accelscope.vendors.common.cross_check import KnownDifference, within
from accelscope.vendors.common.files import PciDevice, pci_devices
from accelscope.vendors.common.tool import Tool
from accelscope.vendors.nvidia import NVIDIA_SMI, NVML_LIBRARY, parse_xml
from accelscope.vendors.nvidia.nvml_library import (
    DEFAULT_LIBRARY,
    NOT_SUPPORTED,
    USUAL_PLACES,
    driver_error,
    find_library,
    load_binding,
    mapped_file,
)
from accelscope.vendors.nvidia.reader import PCI_CODES

_KERNEL_LOG = "`dmesg -T | grep -iE 'nvrm|xid'`"
_RESET = "`nvidia-smi --gpu-reset -i INDEX`"
_CONTAINER = (
    "Set runtimeClassName: nvidia in the pod, and NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=utility in its environment"
)
MODULE = (
    f"Run `modprobe nvidia`. If that fails, {_KERNEL_LOG} shows the reason (no module for this kernel, "
    "Secure Boot)."
)
DRIVER = (
    "Install NVIDIA's driver on the node. If the GPU Operator installs it, check that the node has the label "
    "feature.node.kubernetes.io/pci-10de.present=true and not nvidia.com/gpu.deploy.driver=false."
)
HANG = (
    f"The driver hangs in the kernel. Check {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`), then drain the node and reboot it. Until then the agent goes on "
    "reading the devices that still answer."
)
DEVICE_RULES = "The device rules of the unit forbid it: add `DeviceAllow=char-195 rw` to the systemd unit."
_FEWER_GPUS = (
    f"Check {_KERNEL_LOG} for GPUs that failed to start (RmInitAdapter) or are lost. In a container, check "
    "that NVIDIA_VISIBLE_DEVICES is all."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_not_loaded": f"{MODULE} If the node has no GPU, exclude it from the DaemonSet (nodeSelector).",
    "version_mismatch": (
        "The driver's files were upgraded while the old module was loaded: reboot the node, or stop all "
        "programs that use the GPUs and run `rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia` and "
        "`modprobe nvidia`. Restart the containers that use the GPUs, including the agent: they still have "
        "the old library."
    ),
    "library_unusable": (
        "Check that the file is complete and built for this architecture and C library: an image with musl "
        "(Alpine) cannot load it. Reinstall the driver's library."
    ),
    "binding_missing": "Run `pip install nvidia-ml-py` with the Python that runs accelscope.",
    "driver_reloaded": "The driver was reloaded during the check: run doctor again.",
    "driver_error": (
        "In a container, `systemctl daemon-reload` on the node can cause this, because it revokes access to "
        f"the device files: delete the pod so that it is recreated. Otherwise check {_KERNEL_LOG}."
    ),
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other devices used up the time: fix those first, or raise --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus. Check {_KERNEL_LOG} for XID 79, drain the node and reboot it. If the GPU "
        "stays lost, power the machine off, reseat the card, and check its power cable and cooling."
    ),
    "reset_required": f"Stop the processes on the GPU and run {_RESET}. If that fails, reboot the node.",
    "not_shown": f"The driver listed it before. Check {_KERNEL_LOG}. If it does not return, reboot the node.",
    "missing": _FEWER_GPUS,
    "no_devices": _FEWER_GPUS,
    "unheld": (
        "The driver did not bind to it: the GPU may be too old or too new for the driver, or excluded on "
        f"purpose. {_KERNEL_LOG} shows the reason."
    ),
    "insufficient_power": "Check the card's power cables: at least one is not connected.",
    "library_missing": "nvidia-smi does not find libnvidia-ml.so.1: install the driver's library.",
    "tool_missing": "Set the path of the tool with --nvidia-smi-path.",
    "tool_killed": (
        "The tool ran out of memory (`dmesg -T | grep -i oom`; raise the container's limit) or crashed "
        f"({_KERNEL_LOG})."
    ),
    "tool_not_started": "Check that --nvidia-smi-path is an executable for this machine.",
    "internal": "This is a bug in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a part of a device's health reason (`gpu.find_problems`); the first match is used.
_BY_HEALTH = (
    (
        "could not be remapped",
        "Drain the node and have the board replaced. `nvidia-smi -q -i INDEX -d ROW_REMAPPER` has details.",
    ),
    (
        "throttled",
        "Check fans, airflow and power supply: `nvidia-smi -q -i INDEX -d PERFORMANCE,TEMPERATURE,POWER`.",
    ),
    (
        "remapping is pending",
        f"The GPU still works. Drain the node when possible and run {_RESET}, which activates spare rows.",
    ),
    (
        "uncorrected",
        f"Jobs may have failed. Drain the node and run {_RESET}. If the errors continue, replace the board.",
    ),
    ("XID", f"{_KERNEL_LOG} shows the XID and its process; docs/error-codes.md explains the number."),
    ("returned an error", f"Check {_KERNEL_LOG}; drain the GPU and run {_RESET}, or reboot the node."),
    (
        "IMEX",
        "End the jobs of its NVLink domain, then restart nvidia-imex on the domain's nodes: "
        "`nvidia-imex-ctl -N` lists them, `systemctl restart nvidia-imex`.",
    ),
    ("reboot", "Drain the node and reboot it."),
    ("peer-to-peer", "Wait until the jobs that use NVLink between GPUs have ended, then run doctor again."),
    ("bus reset", "Drain the node and reboot it."),
    ("reset", f"Drain the GPU and run {_RESET}. If that fails, reboot the node."),
)
_OTHERWISE = (
    f"Check {_KERNEL_LOG} and the output of `nvidia-smi`. Please report a problem not explained here."
)


def advice(reason: str, subject: Subject) -> str:
    if reason == "library_absent":
        return library_absent(subject)
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((text for part, text in _BY_HEALTH if part in reason), _OTHERWISE)


def library_absent(subject: Subject) -> str:
    if subject.in_container:
        return (
            f"{_CONTAINER}; or mount the driver's root /run/nvidia/driver (GPU Operator) and set "
            "--nvml-library to the library in it."
        )
    return (
        "Install the driver's library (Debian libnvidia-ml1, Ubuntu libnvidia-compute, Red Hat "
        "nvidia-driver-libs), or set its path with --nvml-library."
    )


def no_permission(subject: Subject, group: str | None = None, gid: int | None = None) -> str:
    """`group` and `gid` are those of the device file that could not be opened, if there is one."""
    if subject.in_container:
        fix = f"set supplementalGroups: [{gid}] in the securityContext" if gid else "run the agent as root"
        return f"{_CONTAINER}. If the device files exist but this user may not open them, {fix}."
    return (
        f"Add the agent's user to the group {group or 'of the device files'} "
        f"(SupplementaryGroups={group or 'GROUP'} in the systemd unit, with DeviceAllow=char-195 rw)."
    )


def device_files_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_CONTAINER}."
    return "Run `nvidia-smi` once as root, or enable nvidia-persistenced: both create the device files."


# Hardware, kernel module and device files

_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+([0-9]+(?:\.[0-9]+)+)")
_DEVICE_FILE = re.compile(r"nvidia[0-9]+")
_CONTROL = "nvidiactl"


def gpus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, *PCI_CODES) or ()


def module_version(paths: Paths) -> str | None:
    """The version of the loaded kernel module; None if it is not loaded."""
    try:
        text = (paths.proc / "driver/nvidia/version").read_text(errors="replace")
        match = _VERSION.search(text)
        if match is not None:
            return match[1]
    except OSError:
        pass  # missing in some containers; /sys has it, too
    try:
        return (paths.sys / "module/nvidia/version").read_text(errors="replace").strip() or None
    except OSError:
        return None


def device_files(paths: Paths) -> list[Path]:
    """The device files of the GPUs, without those of the driver."""
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
        none="no NVIDIA GPU on PCI (integrated GPUs are not PCI devices)",
        unless="; a machine without PCI has none",
    )
    foreign = [gpu for gpu in found or () if gpu.driver in ("nouveau", "nova_core", "nova")]
    if foreign:
        yield warning(
            "pci",
            f"{join_words([gpu.address for gpu in foreign])} bound to {foreign[0].driver}, which has no NVML",
            f"Blacklist {foreign[0].driver} (/etc/modprobe.d), install NVIDIA's driver and reboot.",
        )


def module(subject: Subject) -> Iterator[Finding]:
    version = module_version(subject.paths)
    if version is not None:
        yield ok("module", f"nvidia {version} is loaded", version=version)
    elif not all(map(vendors.is_passed_through, gpus(subject.paths))):
        yield warning(
            "module",
            "the kernel module nvidia is not loaded, although there are GPUs",
            f"{MODULE} If it is not installed: {DRIVER}",
        )
    else:
        yield note("module", "the kernel module nvidia is not loaded")


def files(subject: Subject) -> Iterator[Finding]:
    """NVML opens one file for the driver and one for each GPU."""
    paths = subject.paths
    control = paths.dev / _CONTROL
    gpu_files = device_files(paths)
    existing = [*([control] if control.exists() else []), *gpu_files]
    if not existing:
        yield _no_device_files(subject)
        return
    closed = list(_closed_files(subject, existing))
    leftover = _leftover_reason(paths, existing) if closed else None
    if leftover is not None:
        yield note(
            "device files",
            f"{join_words([path.name for path in existing])} in {paths.dev}: {leftover}",
            files=[str(path) for path in existing],
        )
        return
    yield from closed
    missing = [] if control in existing else [control.name]
    expected = sum(gpu.driver == "nvidia" for gpu in gpus(paths))
    if len(gpu_files) < expected:
        missing.append(f"the files of {expected - len(gpu_files)} of {expected} GPUs")
    names = join_words([path.name for path in existing])
    if missing:
        yield warning(
            "device files",
            f"{names}; missing: {join_words(missing)}",
            device_files_missing(subject),
            files=[str(path) for path in existing],
        )
    elif not closed:
        yield ok("device files", f"{names} in {paths.dev}", files=[str(path) for path in existing])


def _leftover_reason(paths: Paths, existing: list[Path]) -> str | None:
    """Why files that cannot be opened are left over and need no repair; None if they are not left over.

    The library, run as root, creates these files even without a driver, and never removes them.
    """
    if module_version(paths) is not None:
        return None
    found = pci_devices(paths.sys, *PCI_CODES)
    if found == ():
        return "left over: there is no GPU on PCI, and the kernel module is not loaded"
    codes = {problem.errno for problem in map(open_error, existing) if problem is not None}
    if found is None and codes <= {errno.ENXIO, errno.ENODEV}:
        return "left over, or the driver is not visible here: neither PCI devices nor the kernel module are"
    return None


def _no_device_files(subject: Subject) -> Finding:
    paths = subject.paths
    found = f"no {_CONTROL} and no nvidia0 in {paths.dev}"
    if (paths.dev / "dxg").exists():
        return ok("device files", "dxg, the device of all GPUs in WSL")
    if module_version(paths) is None:
        return note("device files", f"{found}, as expected without the kernel module")
    return error("device files", f"{found}, although the module is loaded", device_files_missing(subject))


def open_error(path: Path) -> OSError | None:
    """The error of opening the file as NVML does. Its mode alone does not show a container's device rules."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as problem:
        return problem
    return None


def _closed_files(subject: Subject, paths: list[Path]) -> Iterator[Finding]:
    """One finding for all files with the same error, mode and group."""
    groups: dict[tuple[int | None, int, int], list[Path]] = {}
    for path in paths:
        problem = open_error(path)
        if problem is not None:
            status = path.stat()
            groups.setdefault((problem.errno, status.st_mode, status.st_gid), []).append(path)
    for (code, mode, gid), members in groups.items():
        group = _group_name(gid)
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
    if code == errno.EPERM:  # the mode allows it, but the device rules of a cgroup forbid it
        return advice("driver_error", subject) if subject.in_container else DEVICE_RULES
    return advice("lost", subject)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


# NVML library, Python binding and nvidia-smi

_PACKAGE = "nvidia-ml-py"
_XID_EVENTS = 0x8  # nvmlEventTypeXidCriticalError of nvml.h

_FILE_VERSION = re.compile(r"\.so\.([0-9]+(?:\.[0-9]+)+)$")


def library(subject: Subject) -> Iterator[Finding]:
    wanted = subject.value(NVML_LIBRARY)
    location = find_library(wanted)
    if location is None:
        yield _library_missing(subject, wanted)
        return
    try:
        ctypes.CDLL(location)
    except OSError as problem:
        yield error("library", f"{location} does not load: {problem}", advice("library_unusable", subject))
        return
    file = Path(mapped_file(location)).resolve()
    yield ok("library", f"{file} loads", path=str(file), asked_for=wanted)


def binding(subject: Subject) -> Iterator[Finding]:
    from importlib import metadata  # noqa: PLC0415 - imports email, a mebibyte

    if find_spec("pynvml") is None:
        needed = find_library(subject.value(NVML_LIBRARY)) is not None
        yield (error if needed else note)(
            "binding",
            f"the Python package {_PACKAGE} is not installed; NVML cannot be used without it",
            advice("binding_missing", subject),
        )
        return
    try:
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield note(
            "binding",
            f"the module pynvml is not from the package {_PACKAGE}",
            f"If values are missing, run `pip install {_PACKAGE}`: other packages of that module are older.",
        )
        return
    yield ok("binding", f"{_PACKAGE} {version}", version=version)


def nvml(subject: Subject) -> Iterator[Finding]:
    """Whether NVML can be initialised, and whether library and kernel module have the same version."""
    if find_library(subject.value(NVML_LIBRARY)) is None or find_spec("pynvml") is None:
        return  # reported by other checks
    loaded = module_version(subject.paths)
    versions: dict[str, str | None] = {"library": None, "module": loaded}
    try:
        library = load_binding(subject.value(NVML_LIBRARY))
        versions["library"] = _library_version(library, subject)
        with _initialised(library):
            driver = str(library.nvmlSystemGetDriverVersion())
            versions["library"] = versions["library"] or _library_version(library, subject)
    except ReaderError as problem:
        yield error(
            "nvml",
            f"{problem}{_in_brackets(versions) if problem.reason == 'version_mismatch' else ''}",
            advice(problem.reason, subject),
            reason=problem.reason,
        )
        return
    versions["driver"] = driver
    if versions["library"] not in (None, driver) or loaded not in (None, driver):
        yield warning(
            "nvml",
            f"initialised, but versions differ: driver {driver}{_in_brackets(versions)}",
            advice("version_mismatch", subject),
            **versions,
        )
    else:
        yield ok("nvml", f"initialised; library, module and driver are {driver}", **versions)


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.value(NVIDIA_SMI)
    path = Tool(program, timeout_seconds=1).find()
    if path is not None:
        yield ok("nvidia-smi", f"{path}, used if the library is missing", path=path)
    elif Path(program).is_file():
        yield warning(
            "nvidia-smi", f"{program} is not executable", f"Run `chmod a+x {program}`.", path=program
        )
    else:
        yield note("nvidia-smi", f"{program} not found; it is only needed if the library is missing")


def xids(subject: Subject) -> Iterator[Finding]:
    """For which GPUs the driver reports XIDs."""
    if find_library(subject.value(NVML_LIBRARY)) is None or find_spec("pynvml") is None:
        return
    try:
        library = load_binding(subject.value(NVML_LIBRARY))
        with _initialised(library):
            unsupported, supported = _xid_support(library)
    except ReaderError:
        return  # reported by other checks
    if unsupported:
        yield note(
            "xids",
            "XIDs are not counted for GPU "
            + "; ".join(f"{index}: {reason}" for index, reason in unsupported.items()),
            not_counted=list(unsupported),
        )
    elif supported:
        yield ok(
            "xids",
            f"reported by {supported} GPUs; the agent counts them from its start",
            counted=supported,
        )


def _xid_support(library: Any) -> tuple[dict[int, str], int]:
    """Index and reason of GPUs that do not report XIDs, and the number of those that do."""
    unsupported: dict[int, str] = {}
    supported = 0
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            reports_xids = library.nvmlDeviceGetSupportedEventTypes(handle) & _XID_EVENTS
        except library.NVMLError as problem:
            unsupported[index] = (
                "its driver has no events" if problem.value == NOT_SUPPORTED else str(problem)
            )
            continue
        if reports_xids:
            supported += 1
        else:
            unsupported[index] = "its driver does not report them"
    return unsupported, supported


@contextmanager
def _initialised(library: Any) -> Iterator[None]:
    try:
        library.nvmlInit()
        try:
            yield
        finally:
            library.nvmlShutdown()
    except library.NVMLError as problem:
        raise driver_error(problem, "cannot initialise NVML") from None


def _library_version(library: Any, subject: Subject) -> str | None:
    """The driver version of the library, from NVML or from the file's name. NVML's own version begins with
    that of CUDA (12.550.54.15)."""
    try:
        return str(library.nvmlSystemGetNVMLVersion()).partition(".")[2] or None
    except library.NVMLError:
        location = find_library(subject.value(NVML_LIBRARY))
        match = _FILE_VERSION.search(str(Path(mapped_file(location)).resolve())) if location else None
        return match[1] if match else None


def _in_brackets(versions: dict[str, str | None]) -> str:
    known = [f"{what} {versions[what]}" for what in ("library", "module") if versions[what]]
    return f" ({join_words(known)})" if known else ""


def _library_missing(subject: Subject, wanted: str) -> Finding:
    """The severity depends on the hardware, the kernel module and nvidia-smi."""
    tried = [wanted, *(USUAL_PLACES if wanted == DEFAULT_LIBRARY else ())]
    todo = library_absent(subject)
    found = f"{wanted} not found by the loader or in the usual places"
    if wanted != DEFAULT_LIBRARY:
        found = f"{wanted}, set with --nvml-library, is not there"
        todo = f"Correct or remove --nvml-library. {todo}"
    if module_version(subject.paths) is None:
        if not gpus(subject.paths):
            return note("library", found, tried=tried)
        return warning("library", found, DRIVER, tried=tried)
    if Tool(subject.value(NVIDIA_SMI), timeout_seconds=1).find() is not None:
        return warning(
            "library", f"{found}; nvidia-smi is used instead and reports fewer values", todo, tried=tried
        )
    return error("library", found, todo, tried=tried)


def _driver_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout


def _devices_seconds(settings: AgentSettings) -> float:
    return min(settings.reader_timeout, 2 * settings.device_timeout)


# The tool that the reader is compared with. The parser prefers the instant power draw.
_CROSS_CHECK = CrossCheck(
    tools=(
        CheckedTool(
            setting=NVIDIA_SMI,
            commands=lambda _: (ToolCommand((("-q", "-x"),), parse_xml.parse),),
            version=(("--version",), ("-h",)),  # before driver 530, only the help text names it
            known=(
                KnownDifference(
                    fields=("power_watts",),
                    explanation="nvidia-smi prints the power of an instant, NVML averages over a second",
                    applies=within(0.3),
                ),
                KnownDifference(
                    fields=("power_limit_watts",),
                    explanation="nvidia-smi prints the limit that was set, NVML the enforced one, which "
                    "other limits may lower",
                    applies=lambda reader, tool: reader < tool < 2 * reader,
                ),
            ),
        ),
    ),
)


# Each check depends on those before it.
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
    _CROSS_CHECK,
)
