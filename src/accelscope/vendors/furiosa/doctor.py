"""Checks and advice of `accelscope doctor` for Furiosa cards.

An advice is a sentence or two with commands; INDEX is replaced by the device's index.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject, error, join_words, note, ok, pluralize, warning
from accelscope.doctor.cross_check import CheckedTool, CrossCheck, ToolCommand
from accelscope.doctor.vendors import Hardware, VendorExamination
from accelscope.model import Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.common.contract import Paths, ReaderError
from accelscope.vendors.common.cross_check import KnownDifference
from accelscope.vendors.common.files import PciDevice, pci_devices, read_text
from accelscope.vendors.common.files import entries as names_in
from accelscope.vendors.common.tool import Tool
from accelscope.vendors.furiosa import FURIOSA_SMI, FURIOSACTL, documents
from accelscope.vendors.furiosa.draft import card_files, folder_of
from accelscope.vendors.furiosa.driver_source import PCI_CODES
from accelscope.vendors.furiosa.parse_tools import parse_info, parse_list, parse_status
from accelscope.vendors.furiosa.sysfs import CLASSES, Entries, Entry

_KERNEL_LOG = "`dmesg -T | grep -iE 'npu|rngd|furiosa'`"
DRIVER = (
    "Install the vendor's driver on the node (furiosa-driver-rngd or furiosa-driver-warboy) and load it; if "
    f"that fails, {_KERNEL_LOG} shows the reason (no module for this kernel, Secure Boot)."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. The agent still reads the cards that "
    "answer."
)
LIBRARY = (
    "The tool does not find its own library: install it (furiosa-libsmi), or, in a container, mount the "
    "node's library too and add its folder to LD_LIBRARY_PATH."
)
TOOL_HANG = (
    f"The tool hangs, usually because a card does: see {_KERNEL_LOG}. The agent continues without it and "
    "tries again once a minute. Until it answers, processes are absent, and with older drivers also memory "
    "and utilisation by core of RNGD."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_not_loaded": DRIVER,
    "library_missing": LIBRARY,
    "library_absent": (
        "The driver is loaded, but /sys does not show its classes here: in a pod, mount the node's /sys "
        "read-only and name it with --sys-root."
    ),
    "version_mismatch": (
        "Tool and driver are of different releases: install furiosa-smi of the driver's release, and reboot "
        "after an upgrade of the driver."
    ),
    "driver_error": f"See {_KERNEL_LOG} and `furiosa-smi status`.",
    "timeout": HANG,
    "tool_timeout": TOOL_HANG,
    "tool_stuck": TOOL_HANG,
    "deadline": "Other cards used up the time: repair those first, or raise --reader-timeout.",
    "lost": (
        f"The card is not on the bus any more: see {_KERNEL_LOG}, drain the node and reboot it. If it does "
        "not come back, power the machine off, reseat the card, and check its power cable and cooling."
    ),
    "not_shown": (
        "The card was present before. Was it drained (`furiosa-smi drain list`)? Otherwise see "
        f"{_KERNEL_LOG}."
    ),
    "missing": (
        "Was it drained with `furiosa-smi drain` (`furiosa-smi drain list`, `drain unset`)? Otherwise "
        f"see {_KERNEL_LOG} for a card that failed to start."
    ),
    "unheld": f"{DRIVER} A drained card has no driver either (`furiosa-smi drain list`).",
    "no_devices": f"See {_KERNEL_LOG} for cards that failed to start, and `lspci -d 1ed2:`.",
    "tool_missing": "Install furiosa-smi (or furiosactl for Warboy), or name it with --furiosa-smi-path.",
    "tool_killed": "Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash.",
    "tool_not_started": "Check that --furiosa-smi-path is an executable for this machine.",
    "internal": "This is a bug in AccelScope: please report it with the log of `accelscope agent`.",
}
# By words in the reason of a card's health; the first match counts.
_BY_WORD = (
    (
        "not alive",
        f"The card's firmware does not answer: see {_KERNEL_LOG}; drain the card, then reset it or reboot "
        "the node.",
    ),
    (
        "_error (",
        f"{_KERNEL_LOG} shows the driver's messages; repeated errors point to a faulty slot or card.",
    ),
    ("slowed down", "Check fans, air flow and power supply; `furiosa-smi info` shows temperature and power."),
    (
        "reports whether the card is alive",
        "The driver's file for it is missing: does the driver's version fit the card? If the tool is "
        "installed, `furiosa-smi status` shows it.",
    ),
)
_OTHERWISE = (
    f"See {_KERNEL_LOG} and `furiosa-smi info`; please report a problem that doctor does not explain."
)


def advice(reason: str, subject: Subject) -> str:
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def no_permission(subject: Subject) -> str:
    if subject.in_container:
        return (
            "Mount the node's /sys read-only, without masked paths, and run the agent as a user who may read "
            "it; furiosa-smi ps needs the node's process ids (hostPID: true) and root."
        )
    return "Run the agent as root, or let its user read the driver's files in /sys (a udev rule)."


# Files that every family has.
_ATTRIBUTES = ("busname", "device_uuid", "device_sn", "fw_version", "heartbeat", "atr_error")


def on_bus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, *PCI_CODES) or ()


def entries(paths: Paths) -> tuple[Entry, ...] | None:
    return Entries(paths.sys).listed()


def hardware(subject: Subject) -> Hardware:
    found = on_bus(subject.paths)
    shown = entries(subject.paths)
    ours = [card for card in found if not vendors.is_passed_through(card)]
    return Hardware(
        addresses=frozenset(card.address for card in ours if card.driver is not None),
        unheld=frozenset(card.address for card in ours if card.driver is None),
        driver_loaded=shown is not None,
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    found = pci_devices(subject.paths.sys, *PCI_CODES)
    yield from vendors.on_pci(subject.paths.sys, found, what="cards", none="no Furiosa card on PCI")


def driver(subject: Subject) -> Iterator[Finding]:
    shown = entries(subject.paths)
    classes = " nor ".join(f"class/{name}" for name, _ in CLASSES[:2])
    if shown is None:
        found = f"neither {classes} is in {subject.paths.sys}: the driver is not loaded"
        if not all(map(vendors.is_passed_through, on_bus(subject.paths))):
            yield warning("driver", f"{found}, but there are cards", DRIVER)
        else:
            yield note("driver", found)
    elif not shown:
        yield warning("driver", "the driver is loaded and lists no card", advice("no_devices", subject))
    else:
        version = Entries(subject.paths.sys).driver_version(shown)
        names = join_words([f"{entry.name} ({entry.architecture})" for entry in shown])
        yield ok("driver", f"version {version or 'unknown'}, lists {names}", version=version)


def attributes(subject: Subject) -> Iterator[Finding]:
    """Whether the driver's files can be read: mounts and users of a container often prevent it."""
    closed: dict[str, list[str]] = {}
    asked = 0
    for entry in entries(subject.paths) or ():
        for path in (f"{entry.folder}/{name}" for name in _ATTRIBUTES):
            asked += 1
            try:
                read_text(path)
            except OSError as problem:
                if problem.errno != errno.ENOENT:
                    closed.setdefault(os.strerror(problem.errno or 0), []).append(path)
    for why, paths in closed.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        reason = "no_permission" if why == os.strerror(errno.EACCES) else "driver_error"
        yield error(
            "attributes", f"{', '.join(paths[:3])}{more}: {why}", advice(reason, subject), files=paths
        )
    if asked and not closed:
        yield ok("attributes", f"{pluralize(asked, 'file', 'files')} of the driver can be read")


def files(subject: Subject) -> Iterator[Finding]:
    """The agent reads /sys only; tools and workloads need the device files."""
    for entry in entries(subject.paths) or ():
        folder = folder_of(subject.paths.dev, entry.architecture)
        found = card_files(names_in(str(folder)), entry.index)
        if found.cores:
            yield ok(
                "device files",
                f"{entry.key}: {len(found.cores)} for cores, {len(found.support)} others, in {folder}",
                files=[file.name for file in found.cores],
            )
        else:
            yield note(
                "device files",
                f"{entry.key}: none in {folder}; the agent reads /sys, but furiosa-smi may not find the card",
                "In a pod that runs the tool, mount the node's /dev and name it with --dev-root.",
            )


def seconds(settings: AgentSettings) -> float:
    """For both tools, one after the other."""
    return 2 * settings.reader_timeout + 1


def tools(subject: Subject) -> Iterator[Finding]:
    shown = entries(subject.paths) or ()
    families = {entry.architecture for entry in shown}
    for name, program in (
        ("furiosa-smi", subject.value(FURIOSA_SMI)),
        ("furiosactl", subject.value(FURIOSACTL)),
    ):
        tool = Tool(program, timeout_seconds=subject.settings.reader_timeout)
        place = tool.find()
        if place is not None:
            yield _tool_finding(subject, name, tool, place)
        elif Path(program).is_file():
            yield warning(name, f"{program} is not executable", f"chmod a+x {program}.")
        elif name == "furiosa-smi" and "rngd" in families:
            yield warning(
                name,
                f"{program} not found: processes of RNGD cards are absent, and with drivers before 2026.4 "
                "memory and utilisation by core",
                advice("tool_missing", subject),
            )
        else:
            yield note(name, f"{program} not found")


def _tool_finding(subject: Subject, name: str, tool: Tool, place: str) -> Finding:
    try:
        output = tool.run(["info"])
    except ReaderError as problem:
        return warning(name, str(problem), advice(problem.reason, subject), path=place)
    parsed = parse_info(output.text, f"{name} info")
    if parsed.error is None:
        return ok(name, f"{place} lists {pluralize(len(parsed.devices), 'card', 'cards')}", path=place)
    # Messages may be in either of the two outputs.
    message = documents.error_of(output.complaint) or parsed.error
    return warning(name, f"{place}: {message.text}", advice(message.reason, subject), reason=message.reason)


# The tools that the reader is compared with, without their values in its gaps.


def _of_warboy(parse: Callable[[str], ParseResult]) -> Callable[[str], ParseResult]:
    """furiosactl does not print the family of its cards: it supports one."""

    def parsed(text: str) -> ParseResult:
        found = parse(text)
        return replace(found, devices=tuple(replace(each, architecture="warboy") for each in found.devices))

    return parsed


_JSON = ("--format", "json")
_CROSS_CHECK = CrossCheck(
    tools=(
        CheckedTool(
            setting=FURIOSA_SMI,
            commands=lambda _: (
                ToolCommand(
                    (
                        ("info", *_JSON),
                        ("info", "--format", "full"),
                        ("info", "--full"),
                        ("info",),
                    ),
                    lambda text: parse_info(text, "furiosa-smi info"),
                ),
                ToolCommand((("status", *_JSON), ("status",)), parse_status),
            ),
            version=(("version",),),
            covers=lambda card: card.architecture != "warboy",  # only some versions list these too
            known=(
                KnownDifference(
                    fields=("cores.*.utilization_ratio",),
                    explanation="furiosa-smi measures over a period of its own, the reader between two "
                    "readings",
                    applies=lambda reader, tool: abs(reader - tool) <= 0.2,
                ),
            ),
        ),
        CheckedTool(
            setting=FURIOSACTL,
            commands=lambda _: (
                ToolCommand(
                    (("info", *_JSON), ("info", "--full"), ("info",)),
                    _of_warboy(lambda text: parse_info(text, "furiosactl info")),
                ),
                ToolCommand((("list", *_JSON), ("list",)), _of_warboy(parse_list)),
            ),
            covers=lambda card: card.architecture == "warboy",
            known=(
                KnownDifference(
                    fields=("power_watts",),
                    explanation="furiosactl before 0.10 prints the power of the cores, a tenth of the card's",
                    applies=lambda reader, tool: reader / 20 < tool < reader / 5,
                ),
            ),
        ),
    ),
)


# In the order in which one check depends on another.
EXAMINATION = VendorExamination(
    Vendor("furiosa"),
    (
        Check("pci", on_pci),
        Check("driver", driver, timeout_advice=HANG),
        Check("attributes", attributes, timeout_advice=HANG),
        Check("device files", files),
        Check("tools", tools, seconds),
    ),
    hardware,
    advice,
    _CROSS_CHECK,
)
