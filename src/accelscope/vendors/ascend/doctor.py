"""What `accelscope doctor` checks where Ascend NPUs may be, and what it advises.

An advice is a sentence or two, with the commands; NPU and CHIP stand for the ids that npu-smi shows.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, warning
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.vendors.ascend import DRIVER_ROOT, NPU_SMI
from accelscope.vendors.ascend.smi import library_folders
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.common.files import PROCESSING_CLASS, PciDevice, entries, pci_devices
from accelscope.vendors.common.tool import find_program

_KERNEL_LOG = "`dmesg -T | grep -iE 'davinci|devdrv|ascend'`"
_HEALTH = "`npu-smi info -t health -i NPU -c CHIP` names the error codes"
_RESET = "`npu-smi set -t reset -i NPU -c CHIP`"
_MOUNTS = (
    "Run the container privileged and mount /usr/local/Ascend/driver, /usr/local/sbin/npu-smi (or "
    "/usr/local/bin/npu-smi) and /usr/local/dcmi from the node"
)
DRIVER = (
    "Install Ascend's driver and firmware packages on the node (Ascend-hdk-…-npu-driver_….run --full), then "
    "reboot it."
)
MODULE = f"See {_KERNEL_LOG}: after an upgrade of kernel or firmware the driver must be installed anew."
HANG = (
    f"The driver hangs: see {_KERNEL_LOG} and processes in state D (`ps axo pid,stat,wchan,comm`); drain the "
    "node and reboot it."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_in_use": (
        "The NPUs are bound to another container, or a second monitor (npu-exporter) asks at the same time, "
        "or /usr/local/dcmi is not mounted: run the agent privileged, and only one monitor."
    ),
    "upgrading": "The driver is being upgraded: wait, then reboot the node if it asks for that.",
    "not_ready": "The chips are starting: wait a minute and run doctor again.",
    "driver_timeout": HANG,
    "query_failed": f"npu-smi could not ask a chip: {_HEALTH}; see {_KERNEL_LOG}.",
    "other_tool": (
        "This npu-smi is another vendor's program. Name Ascend's with --npu-smi-path, or leave ascend out of "
        "--readers."
    ),
    "unrecognized": (
        "npu-smi printed something that is not known: save it with `npu-smi info > npu-smi.txt`, look at it "
        "with `accelscope parse npu-smi-info npu-smi.txt`, and please report it."
    ),
    "empty": f"npu-smi printed nothing: run it by hand; see {_KERNEL_LOG}.",
    "incomplete": "npu-smi's table was damaged on the way: run doctor again; report it if it stays, please.",
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other chips used up the time: mend those first, or raise --reader-timeout.",
    "lost": f"The chip is gone: see {_KERNEL_LOG}; drain the node and reboot it, then reseat the card.",
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"npu-smi does not show it: see {_KERNEL_LOG}. In a container: {_MOUNTS}.",
    "no_devices": f"See {_KERNEL_LOG} for chips that failed to start. In a container: {_MOUNTS}.",
    "unheld": f"The driver did not take it: {_KERNEL_LOG} says why; is the driver of this card's generation?",
    "tool_killed": (
        f"Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash: {_KERNEL_LOG}."
    ),
    "tool_not_started": "See that the file that --npu-smi-path names is a program of this machine.",
    "tool_output_too_big": "See that the file that --npu-smi-path names is npu-smi.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a chip's health; the first that fits.
_BY_WORD = (
    ("Critical", f"{_HEALTH}. Drain the node, then {_RESET}; if it comes back, have the board replaced."),
    ("Alarm", f"{_HEALTH}. Stop what runs on it, then {_RESET}; if it comes back, replace the board."),
    ("Warning", f"{_HEALTH}; it works on. Look at temperature, power and links."),
    ("the driver", f"{_HEALTH}; see {_KERNEL_LOG}."),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `npu-smi info` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason in ("library_absent", "tool_missing"):
        return tool_missing(subject)
    if reason == "library_missing":
        return library_missing(subject)
    if reason in ("no_permission", "driver_error"):
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def tool_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_MOUNTS}; or name the tool with --npu-smi-path."
    return "Name the tool with --npu-smi-path: it is in /usr/local/bin or /usr/local/sbin of the driver."


def library_missing(subject: Subject) -> str:
    name = f"Name the driver's folder with --ascend-driver-root (now {subject.value(DRIVER_ROOT)})"
    if subject.in_container:
        return f"{_MOUNTS}. If the driver is elsewhere: {name}."
    return f"{name}: npu-smi's libraries are in its lib64. {DRIVER}"


def no_permission(subject: Subject) -> str:
    """Also for an internal error of the driver (-8005), which has the same causes as a rule."""
    if subject.in_container:
        return f"{_MOUNTS}. If that is so already, the driver was upgraded: reboot the node."
    if subject.user.is_root:
        return f"The driver was upgraded or is not loaded: reboot the node. {MODULE}"
    return (
        "Run the agent as root, or add its user to the group that owns /dev/davinci_manager (HwHiAiUser; "
        "SupplementaryGroups=HwHiAiUser in the systemd unit). If that is so already, reboot the node."
    )


def device_files_missing(subject: Subject) -> str:
    return f"{_MOUNTS}." if subject.in_container else MODULE


# Hardware, kernel modules and device files: what must be there before npu-smi can work.

_PCI_CODES = (0x19E5, PROCESSING_CLASS)  # Huawei's vendor number, processing accelerators
_DEVICE_FILE = re.compile(r"davinci[0-9]+")
_CONTROL_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_MODULES = re.compile(r"drv_davinci|drv_devmng|ascend_")


def npus(paths: Paths) -> tuple[PciDevice, ...]:
    """This node's own: not those that it passed on to a virtual machine."""
    return tuple(npu for npu in pci_devices(paths.sys, *_PCI_CODES) or () if not vendors.is_passed_through(npu))


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
    yield from vendors.on_pci(
        subject.paths.sys,
        pci_devices(subject.paths.sys, *_PCI_CODES),
        what="NPUs",
        none="no NPU of Huawei on PCI (some are connected otherwise)",
        unless="; some NPUs are not on PCI at all",
    )


def module(subject: Subject) -> Iterator[Finding]:
    found = modules(subject.paths)
    if found:
        yield ok("module", f"{join_words(found)} loaded", modules=found)
    elif npus(subject.paths):
        yield warning("module", "no kernel module of Ascend is loaded, though there are NPUs", MODULE)
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
                "device files", f"{found}, though the driver is loaded", device_files_missing(subject)
            )
        else:
            yield note("device files", f"{found}, as is to be expected without the driver")
        return
    closed = [name for name in (*there, *chips) if _is_closed(dev / name)]
    missing = [name for name in _CONTROL_FILES if name not in there]
    if closed:
        yield error(
            "device files",
            f"{join_words(closed)} in {dev} may not be opened by this user",
            no_permission(subject),
            files=closed,
        )
    if missing or not chips:
        lacking = join_words([*missing, *([] if chips else ["davinci0"])])
        yield warning("device files", f"missing in {dev}: {lacking}", device_files_missing(subject))
    elif not closed:
        yield ok("device files", f"{len(chips)} of chips, and {join_words(there)}, in {dev}", files=chips)


def _is_closed(path: Path) -> bool:
    """Try what the driver's library does: rights alone do not tell of a container's device rules."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as problem:
        return problem.errno in (errno.EACCES, errno.EPERM)
    return False


# npu-smi and the libraries that it needs.

_LIBRARY = "libdrvdsmi_host.so"  # the first that the tool asks the loader for
_VERSION = re.compile(r"^Version\s*=\s*(\S+)", re.MULTILINE)


def driver_folder(subject: Subject) -> Iterator[Finding]:
    """Where the driver's installation puts its libraries; only login shells are told."""
    root = Path(subject.value(DRIVER_ROOT))
    expected = is_loaded(subject.paths) or bool(npus(subject.paths))
    place = next((folder for folder in library_folders(root) if (folder / _LIBRARY).is_file()), None)
    if place is not None:
        version = _version(root)
        yield ok("driver folder", f"{_LIBRARY} in {place}, driver {version or 'of unknown version'}")
    elif expected:
        what = f"{_LIBRARY} is not in lib64/driver of {root}" if root.is_dir() else f"{root} is not there"
        yield warning("driver folder", what, library_missing(subject), root=str(root))
    else:
        yield note("driver folder", f"{root} is not there")


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.value(NPU_SMI)
    place = find_program(program)
    if place is not None:
        yield ok("npu-smi", place, path=place)
    elif Path(program).is_file():
        yield error("npu-smi", f"{program} is there but cannot be executed", f"chmod a+x {program}.")
    elif is_loaded(subject.paths):
        yield error("npu-smi", f"{program} not found: nothing can be read", tool_missing(subject))
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


# The checks of this vendor, in the order in which one thing rests on another.

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
)
