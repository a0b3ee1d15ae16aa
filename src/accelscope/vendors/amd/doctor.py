"""What `accelscope doctor` checks where AMD GPUs may be, and what it advises.

An advice is a sentence or two, with the commands; INDEX stands for the device's index.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, pluralize, warning
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.parsing import Parsed
from accelscope.vendors.amd import AMD_SMI, ROCM_SMI, parse_amd_smi, parse_rocm_smi
from accelscope.vendors.amd.documents import error_of
from accelscope.vendors.amd.drm import Cards, ComputeDriver, driver_loaded, driver_version
from accelscope.vendors.amd.processes import OpenFiles
from accelscope.vendors.common.contract import Paths, ReaderError
from accelscope.vendors.common.files import DISPLAY_CLASS, PROCESSING_CLASS, PciDevice, entries, pci_devices
from accelscope.vendors.common.tool import Tool

_KERNEL_LOG = "`dmesg -T | grep -iE 'amdgpu|kfd'`"
MODULE = f"`modprobe amdgpu`; if that fails, {_KERNEL_LOG} says why (no firmware, blacklisted, Secure Boot)."
DRIVER = (
    "Load the kernel's own amdgpu or install AMD's (`amdgpu-install --usecase=dkms`); the GPU Operator does "
    "it on nodes with the label feature.node.kubernetes.io/amd-gpu=true."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. Meanwhile the agent keeps what still "
    "answers fresh."
)
TOOL_HANG = (
    f"The tool hangs, mostly because a GPU does: see {_KERNEL_LOG}. The agent reads the driver's files "
    "meanwhile and asks the tool again at the next --tool-interval."
)
TOOL_ADDS = (
    "Names of Radeon products, throttling, links and the version of the VBIOS come from it: install "
    "amd-smi-lib (ROCm), mount the node's /opt/rocm in a pod, or name the tool with --amd-smi-path."
)
_STRANGE = (
    "The tool printed something that is not known: save it with `amd-smi metric --json > metric.txt`, look "
    "at it with `accelscope parse amd-smi-metric metric.txt`, and please report it."
)
_GROUPS = "render and video"
_RESET = "`amd-smi reset --gpureset --gpu INDEX`"

_BY_REASON = {
    "driver_absent": DRIVER,
    "library_absent": (
        "The driver is loaded, but /sys/class/drm shows no GPU of it: in a pod, mount the node's /sys "
        f"read-only and name it with --sys-root; on the node itself, {_KERNEL_LOG} tells why none started."
    ),
    "driver_not_loaded": f"{MODULE} Not installed at all? {DRIVER}",
    "library_missing": (
        "The tool does not find its own library: install amd-smi-lib or rocm-smi-lib whole, name the folder "
        "in LD_LIBRARY_PATH (/opt/rocm/lib), and in a pod mount all of /opt/rocm."
    ),
    "driver_error": f"See {_KERNEL_LOG} and what `amd-smi metric` says.",
    "timeout": HANG,
    "not_ready": "The tool takes long for its answer: wait a minute; `time amd-smi metric` shows how long.",
    "tool_timeout": TOOL_HANG,
    "tool_stuck": TOOL_HANG,
    "deadline": "Other devices used up the time: mend those first, or raise --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus or its reset failed: see {_KERNEL_LOG}, drain the node and reboot it. If "
        "it does not come back, power the machine off and check the card's seat, power and cooling."
    ),
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"See {_KERNEL_LOG} for GPUs whose start failed (`Fatal error during GPU init`).",
    "no_devices": f"See {_KERNEL_LOG} for GPUs whose start failed (`Fatal error during GPU init`).",
    "unheld": f"Is it too new for this driver, or kept out on purpose? {_KERNEL_LOG} names it.",
    "suspended": (
        "The GPUs are asleep and rocm-smi does not wake them: nothing to mend. `cat "
        "/sys/class/drm/card*/device/power/runtime_status` shows it."
    ),
    "tool_missing": TOOL_ADDS,
    "tool_failed": "The tool itself breaks: are it, its Python package and its library of one ROCm release?",
    "tool_killed": (
        "Out of memory: amd-smi and rocm-smi are Python programs and count in the agent's container, give it "
        "256Mi; `dmesg -T | grep -i oom` shows it."
    ),
    "unrecognized": _STRANGE,
    "truncated": _STRANGE,
    "empty": f"The tool printed nothing: run `amd-smi metric` by hand; see {_KERNEL_LOG}.",
    "tool_output_too_big": "See that the file that --amd-smi-path names is amd-smi.",
    "tool_not_started": "See that the file that --amd-smi-path names is a program of this machine.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a device's health; the first that fits.
_BY_WORD = (
    ("needs replacing", "Drain the node and have the board replaced: `amd-smi bad-pages --gpu INDEX`."),
    ("wait for a reset", f"It works on. When the node is drained: {_RESET}."),
    (
        "uncorrectable errors",
        f"Jobs may have failed: {_KERNEL_LOG} and `amd-smi metric --ecc-blocks --gpu INDEX` name the block. "
        f"Once the node is drained, {_RESET}; if they go on, replace the board.",
    ),
    (
        "links to other GPUs",
        "`amd-smi xgmi` shows which link; drain the node and reboot it, then check the seat of the modules.",
    ),
    ("°C", "Look at fans, air and cooling: `amd-smi metric --temperature --gpu INDEX`."),
    ("slowed down", "Look at fans, air and supply: `amd-smi metric --throttle --power --gpu INDEX`."),
    (
        "answers nothing for now",
        f"Run doctor again in a minute. If it stays so, {_KERNEL_LOG} says whether a reset failed; then "
        "drain the node and reboot it.",
    ),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `amd-smi metric` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def no_permission(subject: Subject) -> str:
    if subject.in_container:
        return (
            "Mount the node's /sys read-only, without masked paths; for amd-smi give the container /dev/kfd "
            f"and /dev/dri and the groups {_GROUPS} (supplementalGroups with their numbers on the node)."
        )
    return (
        f"Add the agent's user to the groups {_GROUPS} (SupplementaryGroups=render video in the systemd "
        "unit), and see that /sys is not masked (ProtectKernelTunables= is fine, it only forbids writing)."
    )


# Hardware, kernel module, what may be read of it, and whose processes can be seen.

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
    yield from vendors.on_pci(subject.paths.sys, found, what="GPUs", none="no AMD GPU on PCI")
    old = [gpu.address for gpu in found or () if gpu.driver == _OLD_DRIVER]
    if old:
        yield note(
            "pci",
            f"{join_words(old)} held by {_OLD_DRIVER}, the driver of chips before 2012: they are not read",
        )


def module(subject: Subject) -> Iterator[Finding]:
    paths = subject.paths
    if driver_loaded(paths.sys):
        version = driver_version(paths.sys, paths.proc)
        yield ok("module", f"{_DRIVER} {version or 'of unknown version'} is loaded", version=version)
    elif not all(map(vendors.is_passed_through, gpus(paths))):
        yield warning(
            "module",
            f"the kernel module {_DRIVER} is not loaded, though there are GPUs",
            f"{MODULE} Not installed at all? {DRIVER}",
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
            f"this user may not read {pluralize(len(closed), 'file', 'files')} under {where}: {closed[0]} ...",
            no_permission(subject),
            files=closed,
        )
    else:
        yield ok("files", f"those of {pluralize(len(cards), 'GPU', 'GPUs')} under {where} may be read")


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
            f"{join_words([str(path) for path in closed])} may not be opened by this user: amd-smi tells less",
            no_permission(subject),
            files=[str(path) for path in closed],
        )
    elif len(there) > 1:
        yield ok("device files", f"{join_words([path.name for path in there])} in {dev}")
    else:
        yield note(
            "device files",
            f"no kfd and no dri/renderD128 in {dev}: amd-smi needs them, the driver's files in /sys do not",
            no_permission(subject),
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


# AMD's tools: whether one is there, and whether it answers.

_NAMES = ["--showproductname", "--showbus", "--json"]


def amd_smi(subject: Subject) -> Iterator[Finding]:
    yield _examined(
        subject, "amd-smi", subject.value(AMD_SMI), ["static", "--json"], parse_amd_smi.parse_static
    )


def rocm_smi(subject: Subject) -> Iterator[Finding]:
    program = subject.value(ROCM_SMI)
    stand_in = Tool(subject.value(AMD_SMI), timeout_seconds=1).find() is None
    if stand_in:
        yield _examined(subject, "rocm-smi", program, _NAMES, parse_rocm_smi.parse_rocm_json)
    elif place := Tool(program, timeout_seconds=1).find():
        yield ok("rocm-smi", f"{place}, for when there is no amd-smi", path=place)
    else:
        yield note("rocm-smi", f"{program} not found; it is needed only without amd-smi")


def _examined(
    subject: Subject, name: str, program: str, arguments: list[str], parse: Callable[[str], Parsed]
) -> Finding:
    tool = Tool(program, timeout_seconds=subject.settings.reader_timeout)
    place = tool.find()
    if place is None:
        return _missing(subject, name, program)
    if not Cards(subject.paths.sys).find():
        return ok(name, f"{place}; not run, since there is no GPU", path=place)
    command = " ".join([place, *arguments])
    try:
        output = tool.run(arguments)
    except ReaderError as problem:
        return warning(name, str(problem), advice(problem.reason, subject), reason=problem.reason)
    parsed = parse(output.text)
    if parsed.error is None:
        return ok(name, f"{place} answers for {len(parsed.devices)}", path=place)
    told = error_of(f"{output.text}\n{output.complaint}") or parsed.error
    return warning(
        name,
        f"{command} (exit code {output.exit_code}): {told.text}",
        advice(told.reason, subject),
        reason=told.reason,
    )


def _missing(subject: Subject, name: str, program: str) -> Finding:
    if Path(program).is_file():
        return warning(
            name, f"{program} is there but cannot be executed", f"chmod a+x {program}.", path=program
        )
    needed = bool(Cards(subject.paths.sys).find())
    found = f"{program} not found; the driver's files are read without it"
    return note(name, found, TOOL_ADDS if needed else None)


# The checks of this vendor, in the order in which one thing rests on another.


def _tool_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout + 5  # the tool is given up by itself before


EXAMINATION = VendorExamination(
    Vendor("amd"),
    (
        Check("pci", on_pci),
        Check("module", module),
        Check("files", files, timeout_advice=HANG),
        Check("device files", device_files),
        Check("processes", processes),
        Check("amd-smi", amd_smi, _tool_seconds, TOOL_HANG),
        Check("rocm-smi", rocm_smi, _tool_seconds, TOOL_HANG),
    ),
    hardware,
    advice,
)
