"""Checks of `accelscope doctor` for AMD GPUs, and the advice for each problem.

Advice is one or two sentences with the commands; INDEX stands for the index of the GPU.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, pluralize, warning
from accelscope.doctor.cross_check import CheckedTool, CrossCheck, ToolCommand
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Device, Link, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.amd import AMD_SMI, ROCM_SMI, parse_amd_smi, parse_rocm_smi
from accelscope.vendors.amd.documents import find_error
from accelscope.vendors.amd.drm import Cards, ComputeDriver, driver_loaded, driver_version
from accelscope.vendors.amd.processes import OpenFiles
from accelscope.vendors.common.contract import Paths, ReaderError
from accelscope.vendors.common.cross_check import KnownDifference, Matcher
from accelscope.vendors.common.files import DISPLAY_CLASS, PROCESSING_CLASS, PciDevice, entries, pci_devices
from accelscope.vendors.common.tool import Tool, find_program

_KERNEL_LOG = "`dmesg -T | grep -iE 'amdgpu|kfd'`"
MODULE = f"`modprobe amdgpu`; if that fails, {_KERNEL_LOG} shows why (no firmware, blacklisted, Secure Boot)."
DRIVER = (
    "Load the kernel's amdgpu module or install AMD's (`amdgpu-install --usecase=dkms`). AMD's GPU Operator "
    "installs it on nodes with the label feature.node.kubernetes.io/amd-gpu=true."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`). Drain and reboot the node. The agent keeps reading the other GPUs."
)
TOOL_HANG = (
    f"The tool hangs, usually because a GPU hangs: see {_KERNEL_LOG}. The agent still reads the driver's "
    "files, and runs the tool again after --tool-interval."
)
TOOL_ADDS = (
    "The names of Radeon products, throttling, links and the VBIOS version come from the tool. Install "
    "amd-smi-lib (ROCm), in a pod mount the node's /opt/rocm, or set --amd-smi-path."
)
_STRANGE = (
    "The output format is unknown. Save it with `amd-smi metric --json > metric.txt`, check it with "
    "`accelscope parse amd-smi-metric metric.txt`, and please report it."
)
_GROUPS = "render and video"
_RESET = "`amd-smi reset --gpureset --gpu INDEX`"

_BY_REASON = {
    "driver_absent": DRIVER,
    "library_absent": (
        "The driver is loaded, but /sys/class/drm contains no GPU of it. In a pod, mount the node's /sys "
        f"read-only and set --sys-root to it. On the node, {_KERNEL_LOG} shows why no GPU started."
    ),
    "driver_not_loaded": f"{MODULE} If it is not installed: {DRIVER}",
    "library_missing": (
        "The tool does not find its library. Reinstall amd-smi-lib or rocm-smi-lib, add /opt/rocm/lib to "
        "LD_LIBRARY_PATH, and in a pod mount all of /opt/rocm."
    ),
    "driver_error": f"See {_KERNEL_LOG} and the output of `amd-smi metric`.",
    "timeout": HANG,
    "not_ready": "The tool is slow: wait a minute; `time amd-smi metric` shows how long it takes.",
    "tool_timeout": TOOL_HANG,
    "tool_stuck": TOOL_HANG,
    "deadline": "Other devices used up the time: fix those first, or increase --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus or its reset failed: see {_KERNEL_LOG}, drain and reboot the node. If the "
        "GPU does not come back, power the machine off and check the card's seat, power and cooling."
    ),
    "not_shown": f"The GPU was listed before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"See {_KERNEL_LOG} for GPUs that failed to start (`Fatal error during GPU init`).",
    "no_devices": f"See {_KERNEL_LOG} for GPUs that failed to start (`Fatal error during GPU init`).",
    "unheld": f"The driver may be too old for the GPU, or excluded by configuration: see {_KERNEL_LOG}.",
    "suspended": (
        "The GPUs are suspended to save power, and rocm-smi does not wake them. This is normal; see `cat "
        "/sys/class/drm/card*/device/power/runtime_status`."
    ),
    "tool_missing": TOOL_ADDS,
    "tool_failed": "The tool crashed: check that it, its Python package and library have one ROCm release.",
    "tool_killed": (
        "Probably out of memory, see `dmesg -T | grep -i oom`. amd-smi and rocm-smi are Python programs in "
        "the agent's container: set its memory limit to 256Mi."
    ),
    "unrecognized": _STRANGE,
    "truncated": _STRANGE,
    "empty": f"The tool printed nothing: run `amd-smi metric` by hand; see {_KERNEL_LOG}.",
    "tool_output_too_big": "Check that --amd-smi-path is the path of amd-smi.",
    "tool_not_started": "Check that --amd-smi-path is a program for this machine.",
    "internal": "This is a bug in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By words in the reason of a device's health; the first match is used.
_BY_HEALTH_TEXT = (
    ("could not be retired", "Drain the node and have the board replaced: `amd-smi bad-pages --gpu INDEX`."),
    ("next GPU reset", f"The GPU can still be used. When the node is drained: {_RESET}."),
    (
        "uncorrectable error",
        f"Jobs may have failed: {_KERNEL_LOG} and `amd-smi metric --ecc-blocks --gpu INDEX` name the block. "
        f"When the node is drained: {_RESET}. If the errors continue, replace the board.",
    ),
    (
        "XGMI link errors",
        "`amd-smi xgmi` shows which link. Drain and reboot the node, then check the seat of the modules.",
    ),
    ("°C", "Check fans, airflow and cooling: `amd-smi metric --temperature --gpu INDEX`."),
    ("throttled", "Check fans, airflow and power supply: `amd-smi metric --throttle --power --gpu INDEX`."),
    (
        "returns no data",
        f"Run doctor again in a minute. If nothing changed, {_KERNEL_LOG} shows whether a reset failed; then "
        "drain and reboot the node.",
    ),
)
_DEFAULT_ADVICE = (
    f"See {_KERNEL_LOG} and the output of `amd-smi metric`; please report what doctor did not explain."
)


def advice(reason: str, subject: Subject) -> str:
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for words, todo in _BY_HEALTH_TEXT if words in reason), _DEFAULT_ADVICE)


def no_permission(subject: Subject) -> str:
    if subject.in_container:
        return (
            "Mount the node's /sys read-only, without masked paths. For amd-smi, give the container "
            f"/dev/kfd, /dev/dri and the groups {_GROUPS} (supplementalGroups with the node's group ids)."
        )
    return (
        f"Add the agent's user to the groups {_GROUPS} (SupplementaryGroups=render video in the systemd "
        "unit), and check that /sys is not masked (ProtectKernelTunables= only makes it read-only)."
    )


# Hardware, kernel module, permissions and processes.

_PCI_CODES = (0x1002, DISPLAY_CLASS, PROCESSING_CLASS)  # AMD's vendor id
_DRIVER = "amdgpu"
_OLD_DRIVER = "radeon"
_RENDER_NODE = re.compile(r"renderD[0-9]+")
# Files that nearly every GPU has.
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
            f"{join_words(old)} bound to {_OLD_DRIVER}, the driver of chips before 2012: not supported",
        )


def module(subject: Subject) -> Iterator[Finding]:
    paths = subject.paths
    if driver_loaded(paths.sys):
        version = driver_version(paths.sys, paths.proc)
        yield ok("module", f"{_DRIVER} {version or 'of unknown version'} is loaded", version=version)
    elif not all(map(vendors.is_passed_through, gpus(paths))):
        yield warning(
            "module",
            f"GPUs found, but the kernel module {_DRIVER} is not loaded",
            f"{MODULE} If it is not installed: {DRIVER}",
        )
    else:
        yield note("module", f"the kernel module {_DRIVER} is not loaded")


def files(subject: Subject) -> Iterator[Finding]:
    """Open the files without reading them, which would wake a suspended GPU."""
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
            f"permission denied for {pluralize(len(closed), 'file', 'files')} in {where}: {closed[0]} ...",
            no_permission(subject),
            files=closed,
        )
    else:
        yield ok("files", f"files of {pluralize(len(cards), 'GPU', 'GPUs')} in {where} are readable")


def device_files(subject: Subject) -> Iterator[Finding]:
    """AMD's tools need the device files, the agent does not. Opening them would wake a suspended GPU."""
    dev = subject.paths.dev
    if not Cards(subject.paths.sys).find():
        return
    nodes = [
        dev / "kfd",
        *(dev / "dri" / name for name in entries(f"{dev}/dri") if _RENDER_NODE.fullmatch(name)),
    ]
    existing = [path for path in nodes if path.exists()]
    closed = [path for path in existing if not os.access(path, os.R_OK | os.W_OK, effective_ids=True)]
    if closed:
        yield warning(
            "device files",
            f"permission denied for {join_words([str(path) for path in closed])}: amd-smi reports less",
            no_permission(subject),
            files=[str(path) for path in closed],
        )
    elif len(existing) > 1:
        yield ok("device files", f"{join_words([path.name for path in existing])} in {dev}")
    else:
        yield note(
            "device files",
            f"no kfd and no dri/renderD128 in {dev}: amd-smi needs them; reading /sys works without",
            no_permission(subject),
        )


def processes(subject: Subject) -> Iterator[Finding]:
    if not Cards(subject.paths.sys).find():
        return
    open_files = OpenFiles(subject.paths.proc)
    pids = {file.pid for files in open_files.find().values() for file in files}
    compute_pids = ComputeDriver(subject.paths.sys).pids()
    found = f"{len(compute_pids)} compute processes, {len(pids)} processes with an open GPU device file"
    if open_files.refused:
        yield note(
            "processes",
            f"{found}; permission denied for the open files of {open_files.refused} other processes, so "
            "graphics processes of other users are not listed",
            "Compute processes are listed anyway. To list the others, run as root, and in a pod add the "
            "capability SYS_PTRACE.",
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
        return False  # not every GPU has the file; other errors show when it is read
    return False


# AMD's tools: whether they are installed and work.

_ROCM_SMI_ARGUMENTS = ["--showproductname", "--showbus", "--json"]


def amd_smi(subject: Subject) -> Iterator[Finding]:
    yield _check_tool(
        subject, "amd-smi", subject.value(AMD_SMI), ["static", "--json"], parse_amd_smi.parse_static
    )


def rocm_smi(subject: Subject) -> Iterator[Finding]:
    program = subject.value(ROCM_SMI)
    if find_program(subject.value(AMD_SMI)) is None:
        yield _check_tool(subject, "rocm-smi", program, _ROCM_SMI_ARGUMENTS, parse_rocm_smi.parse_rocm_json)
    elif path := find_program(program):
        yield ok("rocm-smi", f"{path}, used only without amd-smi", path=path)
    else:
        yield note("rocm-smi", f"{program} not found; needed only without amd-smi")


def _check_tool(
    subject: Subject, name: str, program: str, arguments: list[str], parse: Callable[[str], ParseResult]
) -> Finding:
    tool = Tool(program, timeout_seconds=subject.settings.reader_timeout)
    path = tool.find()
    if path is None:
        return _missing(subject, name, program)
    if not Cards(subject.paths.sys).find():
        return ok(name, f"{path}; not run because there is no GPU", path=path)
    try:
        output = tool.run(arguments)
    except ReaderError as problem:
        return warning(name, str(problem), advice(problem.reason, subject), reason=problem.reason)
    parsed = parse(output.text)
    if parsed.error is None:
        return ok(name, f"{path} lists {pluralize(len(parsed.devices), 'GPU', 'GPUs')}", path=path)
    failure = find_error(f"{output.text}\n{output.complaint}") or parsed.error
    return warning(
        name,
        f"{' '.join([path, *arguments])} (exit code {output.exit_code}): {failure.text}",
        advice(failure.reason, subject),
        reason=failure.reason,
    )


def _missing(subject: Subject, name: str, program: str) -> Finding:
    if Path(program).is_file():
        return warning(name, f"{program} exists but is not executable", f"chmod a+x {program}.", path=program)
    needed = bool(Cards(subject.paths.sys).find())
    found = f"{program} not found; only the driver's files are read"
    return note(name, found, TOOL_ADDS if needed else None)


def _tool_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout + 5  # longer than the timeout of the tool itself


# The tools that the reader is compared with, without their gaps filled from them.

_ROUNDED_UNIT = 15.3 / (1e6 / 65536)  # of the counter of energy
_MOST_PARTITIONS = 8  # of a GPU
_CHIP = re.compile(r"[a-z]*[0-9]{2,}[a-z]*")


def _chips(name: str) -> set[str]:
    """`mi300x` of `AMD Instinct MI300X` and of `MI300X-O`."""
    return set(_CHIP.findall(name.casefold()))


_KNOWN = (
    KnownDifference(
        fields=("model",),
        explanation="the driver's file contains the name of the board, the tool prints the market name",
        applies=lambda reader, tool: bool(_chips(reader) & _chips(tool)),
    ),
    KnownDifference(
        fields=("energy_joules",),
        explanation="the tools multiply the counter by 15.3 µJ, its unit is 15.259 µJ",
        applies=lambda reader, tool: abs(tool - reader * _ROUNDED_UNIT) <= 0.001 * tool,
    ),
    KnownDifference(
        fields=("index",),
        explanation="the tools count each partition as a GPU",
        applies=lambda reader, tool: reader < tool <= reader * _MOST_PARTITIONS,
        of=lambda gpu: bool(gpu.partitions),
    ),
    KnownDifference(
        fields=("architecture",),
        explanation="rocm-smi 6.1 prints the last digit of the architecture as two decimal ones",
        applies=lambda reader, tool: tool == f"{reader[:-1]}{int(reader[-1], 16):02d}",
    ),
    KnownDifference(
        fields=("memory_total_bytes",),
        explanation="amd-smi prints the memory of the first partition",
        applies=lambda reader, tool: any(
            abs(reader - tool * number) <= 0.01 * reader for number in range(2, _MOST_PARTITIONS + 1)
        ),
        of=lambda gpu: bool(gpu.partitions),
    ),
)
_NUMBERS_LINKS = re.compile(r"2[0-3]\.|24\.[0-5]\.")  # up to ROCm 6.1
_NO_LINKS = (
    re.compile("UnboundLocalError: .*'bitrate'"),
    "amd-smi 6.1 ends with an error if it does not know the driver's version of gpu_metrics",
)


def _amd_smi_commands(devices: Sequence[Device]) -> tuple[ToolCommand, ...]:
    commands = (
        ToolCommand((("static", "--json"),), parse_amd_smi.parse_static),
        ToolCommand((("metric", "--json"),), parse_amd_smi.parse_metric),
    )
    if not any(device.links for device in devices):
        return commands
    xgmi = (("xgmi", "--json"),)
    return (
        *commands,
        ToolCommand(xgmi, _links_by_number, suits=_numbers_links, known_failure=_NO_LINKS),
        ToolCommand(xgmi, _links_by_address(devices), suits=lambda version: not _numbers_links(version)),
    )


def _numbers_links(version: str | None) -> bool:
    """Whether amd-smi prints, for the GPU with number n, the link n of the driver's table. Newer versions
    print the link that leads to the GPU."""
    return version is not None and _NUMBERS_LINKS.match(version) is not None


def _links_by_number(text: str) -> ParseResult:
    """Without the other end, which these versions mistake, and the bandwidth, which is that of PCIe."""
    found = parse_amd_smi.parse_links(text)
    return replace(
        found,
        devices=tuple(
            replace(gpu, links=tuple(replace(link, remote=None, bytes_per_second=None) for link in gpu.links))
            for gpu in found.devices
        ),
    )


def _links_by_address(devices: Sequence[Device]) -> Callable[[str], ParseResult]:
    """The tool numbers the links by GPU, the driver by port: they get the reader's numbers, by the GPU at the
    other end. Where several links lead to a GPU, the tool prints their sum, which is not compared."""

    def parsed(text: str) -> ParseResult:
        found = parse_amd_smi.parse_links(text)
        matcher = Matcher(devices)
        return replace(
            found,
            devices=tuple(replace(gpu, links=_renumbered(gpu, matcher.match(gpu))) for gpu in found.devices),
        )

    return parsed


def _renumbered(gpu: Device, of_reader: Device | None) -> tuple[Link, ...]:
    own = () if of_reader is None else of_reader.links
    links_to = Counter(link.remote for link in own)
    numbers = {link.remote: link.index for link in own if link.remote and links_to[link.remote] == 1}
    free = count(max((link.index + 1 for link in own), default=0))  # a link that the reader does not have
    return tuple(
        replace(link, index=numbers[link.remote] if link.remote in numbers else next(free), remote=None)
        for link in gpu.links
    )


_CROSS_CHECK = CrossCheck(
    tools=(
        CheckedTool(
            setting=AMD_SMI,
            commands=_amd_smi_commands,
            commands_text=("amd-smi static --json", "amd-smi metric --json", "amd-smi xgmi --json"),
            version=(("version",),),
            known=_KNOWN,
        ),
        CheckedTool(
            setting=ROCM_SMI,
            commands=lambda _: (
                ToolCommand((("-a", "--showmeminfo", "vram", "--json"),), parse_rocm_smi.parse_rocm_json),
            ),
            known=_KNOWN,
        ),
    ),
)


# In the order of dependency: a later check is of use only if the earlier ones passed.
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
    _CROSS_CHECK,
)
