"""Checks of `accelscope doctor` for Ascend NPUs, and the advice for each problem.

Advice is one or two sentences with the commands; NPU and CHIP stand for the ids that npu-smi prints.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, pluralize, warning
from accelscope.doctor.cross_check import CheckedTool, CrossCheck, ToolCommand
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Device, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.ascend import DRIVER_ROOT, NPU_SMI
from accelscope.vendors.ascend.details import chip_arguments, environment, library_folders
from accelscope.vendors.ascend.parse_values import parse_common, parse_usages
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.common.files import PROCESSING_CLASS, PciDevice, entries, pci_devices
from accelscope.vendors.common.tool import find_program

_KERNEL_LOG = "`dmesg -T | grep -iE 'davinci|devdrv|ascend'`"
_HEALTH = "`npu-smi info -t health -i NPU -c CHIP` prints the error codes"
_RESET = "`npu-smi set -t reset -i NPU -c CHIP`"
_MOUNTS = (
    "Run the container privileged and mount /usr/local/Ascend/driver, /usr/local/sbin/npu-smi (or "
    "/usr/local/bin/npu-smi) and /usr/local/dcmi from the node"
)
DRIVER = (
    "Install Ascend's driver and firmware packages on the node (Ascend-hdk-…-npu-driver_….run --full) and "
    "reboot it."
)
MODULE = f"See {_KERNEL_LOG}: after an upgrade of kernel or firmware the driver must be reinstalled."
HANG = (
    f"The driver hangs: see {_KERNEL_LOG} and processes in state D (`ps axo pid,stat,wchan,comm`). Drain and "
    "reboot the node."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_in_use": (
        "The NPUs are bound to another container, another monitor (npu-exporter) reads them at the same "
        "time, or /usr/local/dcmi is not mounted. Run the agent privileged, and run only one monitor."
    ),
    "upgrading": "The driver is being upgraded: wait, then reboot the node if the installer requires it.",
    "not_ready": "The chips are starting: wait a minute and run doctor again.",
    "driver_timeout": HANG,
    "query_failed": f"npu-smi could not read a chip: {_HEALTH}; see {_KERNEL_LOG}.",
    "other_tool": (
        "This npu-smi is another vendor's program. Set --npu-smi-path to Ascend's, or remove ascend from "
        "--readers."
    ),
    "unrecognized": (
        "The output format of npu-smi is unknown. Save it with `npu-smi info > npu-smi.txt`, check it with "
        "`accelscope parse npu-smi-info npu-smi.txt`, and please report it."
    ),
    "empty": f"npu-smi printed nothing: run it by hand; see {_KERNEL_LOG}.",
    "incomplete": "The table of npu-smi is incomplete: run doctor again. If it persists, please report it.",
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other chips used up the time: fix those first, or increase --reader-timeout.",
    "lost": f"The chip is lost: see {_KERNEL_LOG}; drain and reboot the node, then reseat the card.",
    "not_shown": f"The chip was listed before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"npu-smi does not list it: see {_KERNEL_LOG}. In a container: {_MOUNTS}.",
    "no_devices": f"See {_KERNEL_LOG} for chips that failed to start. In a container: {_MOUNTS}.",
    "unheld": f"The driver is not bound to it; it may not support the card: see {_KERNEL_LOG}.",
    "tool_killed": (
        "Out of memory (see `dmesg -T | grep -i oom`, increase the container's memory limit), or a crash "
        f"(see {_KERNEL_LOG})."
    ),
    "tool_not_started": "Check that --npu-smi-path is a program for this machine.",
    "tool_output_too_big": "Check that --npu-smi-path is the path of npu-smi.",
    "internal": "This is a bug in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By words in the reason of a chip's health; the first match is used.
_BY_HEALTH_TEXT = (
    ("Critical", f"{_HEALTH}. Drain the node, then {_RESET}. If the errors return, have the board replaced."),
    ("Alarm", f"{_HEALTH}. Stop its processes, then {_RESET}. If the errors return, replace the board."),
    ("Warning", f"{_HEALTH}. The chip can still be used; check temperature, power and links."),
    ("the driver", f"{_HEALTH}; see {_KERNEL_LOG}."),
)
_DEFAULT_ADVICE = (
    f"See {_KERNEL_LOG} and the output of `npu-smi info`; please report what doctor did not explain."
)


def advice(reason: str, subject: Subject) -> str:
    if reason in ("library_absent", "tool_missing"):
        return tool_missing(subject)
    if reason == "library_missing":
        return library_missing(subject)
    if reason in ("no_permission", "driver_error"):
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for words, todo in _BY_HEALTH_TEXT if words in reason), _DEFAULT_ADVICE)


def tool_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_MOUNTS}, or set --npu-smi-path."
    return "Set --npu-smi-path: the driver installs npu-smi in /usr/local/bin or /usr/local/sbin."


def library_missing(subject: Subject) -> str:
    setting = f"Set --ascend-driver-root to the driver's folder (now {subject.value(DRIVER_ROOT)})"
    if subject.in_container:
        return f"{_MOUNTS}. If the driver is in another folder: {setting}."
    return f"{setting}: npu-smi's libraries are in its lib64. {DRIVER}"


def no_permission(subject: Subject) -> str:
    """Also for an internal error of the driver (-8005), which usually has the same causes."""
    if subject.in_container:
        return f"{_MOUNTS}. If that is already the case, the driver was upgraded: reboot the node."
    if subject.user.is_root:
        return f"The driver was upgraded or is not loaded: reboot the node. {MODULE}"
    return (
        "Run the agent as root, or add its user to the group that owns /dev/davinci_manager (HwHiAiUser; "
        "SupplementaryGroups=HwHiAiUser in the systemd unit). If that is already the case, reboot the node."
    )


def device_files_missing(subject: Subject) -> str:
    return f"{_MOUNTS}." if subject.in_container else MODULE


# Hardware, kernel modules and device files, which npu-smi needs.

_PCI_CODES = (0x19E5, PROCESSING_CLASS)  # Huawei's vendor id, processing accelerators
_DEVICE_FILE = re.compile(r"davinci[0-9]+")
_CONTROL_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_MODULES = re.compile(r"drv_davinci|drv_devmng|ascend_")


def npus(paths: Paths) -> tuple[PciDevice, ...]:
    """Without NPUs that are passed through to a virtual machine."""
    found = pci_devices(paths.sys, *_PCI_CODES) or ()
    return tuple(npu for npu in found if not vendors.is_passed_through(npu))


def modules(paths: Paths) -> list[str]:
    return [name for name in entries(f"{paths.sys}/module") if _MODULES.match(name)]


def device_files(paths: Paths) -> list[str]:
    """The device files of chips, without those of the driver."""
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
    yield from vendors.on_pci(
        subject.paths.sys,
        pci_devices(subject.paths.sys, *_PCI_CODES),
        what="NPUs",
        none="no Huawei NPU on PCI (some NPUs are not PCI devices)",
        unless="; some NPUs are not PCI devices",
    )


def module(subject: Subject) -> Iterator[Finding]:
    found = modules(subject.paths)
    if found:
        yield ok("module", f"{join_words(found)} loaded", modules=found)
    elif npus(subject.paths):
        yield warning("module", "NPUs found, but no Ascend kernel module is loaded", MODULE)
    else:
        yield note("module", "no Ascend kernel module is loaded")


def files(subject: Subject) -> Iterator[Finding]:
    dev = subject.paths.dev
    chips = device_files(subject.paths)
    control_files = [name for name in _CONTROL_FILES if (dev / name).exists()]
    if not chips and not control_files:
        found = f"no davinci_manager and no davinci0 in {dev}"
        if modules(subject.paths):
            yield error("device files", f"{found}, but the driver is loaded", device_files_missing(subject))
        else:
            yield note("device files", f"{found}, as expected without the driver")
        return
    closed = [name for name in (*control_files, *chips) if _is_closed(dev / name)]
    missing = [name for name in _CONTROL_FILES if name not in control_files]
    if closed:
        yield error(
            "device files",
            f"permission denied for {join_words(closed)} in {dev}",
            no_permission(subject),
            files=closed,
        )
    if missing or not chips:
        names = join_words([*missing, *([] if chips else ["davinci0"])])
        yield warning("device files", f"missing in {dev}: {names}", device_files_missing(subject))
    elif not closed:
        found = f"{pluralize(len(chips), 'chip', 'chips')}, {join_words(control_files)} in {dev}"
        yield ok("device files", found, files=chips)


def _is_closed(path: Path) -> bool:
    """Open the file as the driver's library does: file permissions do not show a container's device rules."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as problem:
        return problem.errno in (errno.EACCES, errno.EPERM)
    return False


# npu-smi and its libraries.

_LIBRARY = "libdrvdsmi_host.so"  # the first library that npu-smi loads
_VERSION = re.compile(r"^Version\s*=\s*(\S+)", re.MULTILINE)


def driver_folder(subject: Subject) -> Iterator[Finding]:
    """The driver's installer adds the folders of its libraries to login shells only, so they are searched."""
    root = Path(subject.value(DRIVER_ROOT))
    expected = is_loaded(subject.paths) or bool(npus(subject.paths))
    folder = next((folder for folder in library_folders(root) if (folder / _LIBRARY).is_file()), None)
    if folder is not None:
        version = _version(root)
        yield ok("driver folder", f"{_LIBRARY} in {folder}, driver {version or 'of unknown version'}")
    elif expected:
        found = f"{_LIBRARY} is not in {root}/lib64/driver" if root.is_dir() else f"{root} does not exist"
        yield warning("driver folder", found, library_missing(subject), root=str(root))
    else:
        yield note("driver folder", f"{root} does not exist")


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.value(NPU_SMI)
    path = find_program(program)
    if path is not None:
        yield ok("npu-smi", path, path=path)
    elif Path(program).is_file():
        yield error("npu-smi", f"{program} exists but is not executable", f"chmod a+x {program}.")
    elif is_loaded(subject.paths):
        yield error("npu-smi", f"{program} not found: the chips cannot be read", tool_missing(subject))
    elif npus(subject.paths):
        yield warning("npu-smi", f"{program} not found", DRIVER)
    else:
        yield note("npu-smi", f"{program} not found")


def _version(root: Path) -> str | None:
    try:
        match = _VERSION.search((root / "version.info").read_text(errors="replace"))
    except OSError:
        return None
    return match[1] if match else None


# npu-smi is the reader's source as well. What can be compared are its commands: the table, which the reader
# prefers, with the details of each board.


def _details_of(devices: Sequence[Device]) -> tuple[ToolCommand, ...]:
    boards: dict[int, list[Device]] = {}
    for device in devices:
        if device.board_id is not None:
            boards.setdefault(device.board_id, []).append(device)
    return tuple(
        ToolCommand((("info", *chip_arguments(kind, board)),), _identified(parse, chips))
        for board, chips in boards.items()
        for kind, parse in (("common", parse_common), ("usages", parse_usages))
    )


def _identified(parse: Callable[[str], ParseResult], chips: Sequence[Device]) -> Callable[[str], ParseResult]:
    """The chips of a board's output, with the ids that they have in the reader."""

    def parsed(text: str) -> ParseResult:
        found = parse(text)
        ids = {device.chip_id: device.id for device in chips}
        only = chips[0].id if len(chips) == 1 else None  # of one chip, not all commands print the number
        return replace(
            found,
            devices=tuple(
                replace(each, id=ids.get(each.chip_id) or only or each.id) for each in found.devices
            ),
        )

    return parsed


_CROSS_CHECK = CrossCheck(
    tools=(
        CheckedTool(
            setting=NPU_SMI,
            commands=_details_of,
            commands_text=("npu-smi info -t common -i (each NPU)", "npu-smi info -t usages -i (each NPU)"),
            version=(("info",),),
            version_pattern=re.compile(r"npu-smi\s+(?:v|version\s*:\s*)?([0-9][\w.]*)"),
            # The reader has these values from the table of `npu-smi info`, others from the same details.
            fields=(
                "temperature_celsius",
                "power_watts",
                "utilization_ratio",
                "memory_total_bytes",
                "memory_used_ratio",
            ),
        ),
    ),
    same_source="npu-smi is also the reader's source, so this compares its commands with each other",
    environment=environment,
)


# In the order of dependency: a later check is of use only if the earlier ones passed.
EXAMINATION = VendorExamination(
    Vendor("ascend"),
    (
        Check("pci", on_pci),
        Check("module", module),
        Check("device files", files, timeout_advice=HANG),
        Check("driver folder", driver_folder),
        Check("npu-smi", tool),
    ),
    hardware,
    advice,
    _CROSS_CHECK,
)
