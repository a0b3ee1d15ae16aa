"""`accelscope capture`: the masked output of this node's drivers in one archive."""

import argparse
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import ArgumentsError, OutputError, refuse, to_the_end
from accelscope.config import ConfigError, LoadedSettings, add_arguments, load
from accelscope.model import Vendor

if TYPE_CHECKING:
    from accelscope.capture import Gathered
    from accelscope.doctor import Finding

_NOTHING = 1
_DEFAULT_OUTPUT = "accelscope-capture.tar.gz"
_TOOL_SECONDS = 30.0  # tools are slow on unhealthy devices, which is when captures are made
_IDENTIFYING = ("uuid", "serial")  # fields
_FIRST_USER, _NOBODY = 1000, 65534  # range of the user ids of people

DESCRIPTION = """\
Run the tools of all accelerator vendors on this node, read the files of their drivers,
and save the output in one archive for a bug report. Nothing on the node is changed.
The archive also contains what `accelscope doctor --cross-check` finds.

UUIDs, serial numbers, host and user names, and IP and MAC addresses are masked; equal
values get equal masks. Command lines are reduced to the name of the program. Check the
archive before you publish it.

In Kubernetes, run it in the container of the agent:

  kubectl exec -n NAMESPACE POD -- accelscope capture --output - > capture.tar.gz

Exit code: 0 archive written (it lists sources that failed), 1 no accelerator software
found on this node, 2 invalid setting, or the file cannot be written."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "capture",
        usage="accelscope capture [-h] [--output FILE] [--dry-run] [--no-mask] [agent options]",
        help="save the masked output of this node's drivers for a bug report",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=_DEFAULT_OUTPUT,
        help=f"archive to create (default {_DEFAULT_OUTPUT}); - for standard output",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list the commands and files without running or reading them"
    )
    parser.add_argument(
        "--no-mask",
        action="store_true",
        help="do not mask names, serial numbers, addresses and command lines",
    )
    add_arguments(parser, AgentSettings, listed_by="accelscope agent")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load(AgentSettings, arguments, os.environ)
        if arguments.dry_run:
            return _dry_run(loaded.settings)
        code, hangs = _capture(arguments, loaded)
        return to_the_end(lambda: (code, True)) if hangs else code
    except (ConfigError, ArgumentsError) as error:
        return refuse("capture", error)


def _dry_run(settings: AgentSettings) -> int:
    # Not needed for --help and invalid settings.
    from accelscope import capture, doctor  # noqa: PLC0415

    roots = {"proc": settings.proc_root, "sys": settings.sys_root, "dev": settings.dev_root}
    for plan in capture.plans():
        print(f"{plan.vendor}, if its tools are installed:")
        for text in (*(command.text for command in plan.commands), *plan.then_text):
            print(f"  run   {text}")
        for tree in plan.trees:
            print(f"  read  {', '.join(f'{roots[tree.root]}/{folder}' for folder in tree.folders)}")
    print("accelscope doctor --cross-check, if these tools are installed:")
    for vendor in map(Vendor, settings.readers):
        for text in doctor.cross_check_commands(vendor):
            print(f"  run   {text}")
    print("processes on devices:")
    print(f"  read  {settings.proc_root}/PID/cgroup, {settings.proc_root}/PID/mountinfo")
    return 0


def _capture(arguments: argparse.Namespace, loaded: LoadedSettings[AgentSettings]) -> tuple[int, bool]:
    """The exit code, and whether a call hangs."""
    from accelscope import capture  # noqa: PLC0415 - as above

    settings = loaded.settings
    to_stdout = arguments.output == "-"
    if not to_stdout and Path(arguments.output).exists():
        raise ArgumentsError(f"{arguments.output} already exists; choose another file with --output")
    if arguments.no_mask:
        _say("NOT MASKED: the archive will contain names, serial numbers and command lines of this node")
    options = replace(settings.reader_options, tool_timeout_seconds=_TOOL_SECONDS)
    gathered = capture.gather(capture.plans(), options, _say)
    if not gathered:
        _say("no accelerator software found; run accelscope doctor for details")
        return _NOTHING, False
    compared, identifiers, hangs = _cross_check(loaded)
    gathered = (*gathered, compared)
    users = tuple(_users(Path(settings.passwd_file)))
    mask = capture.Mask(capture.NodeNames(_hosts(settings), users))
    mask.learn((*(one.text for one in gathered if one.text), *identifiers))
    with _opened(arguments.output) as output:
        files = capture.write_archive(output, gathered, hide=None if arguments.no_mask else mask.apply)
    failed = sum(one.error is not None or bool(one.exit_code) for one in gathered)
    where = "standard output" if to_stdout else arguments.output
    _say(f"{files} files in {where}; {failed} sources failed or are incomplete (see manifest.json)")
    return 0, hangs


def _cross_check(loaded: LoadedSettings[AgentSettings]) -> tuple["Gathered", list[str], bool]:
    """The readers' values beside those of the tools, texts with identifiers for the mask to learn, and
    whether a call hangs."""
    from accelscope import capture, doctor  # noqa: PLC0415 - as above

    _say("comparing the readers with the tools")
    subject = doctor.Subject(loaded=loaded, environ=os.environ)
    report = doctor.examine(subject, (doctor.cross_check_area(map(Vendor, loaded.settings.readers)),))
    findings = [finding for _, finding in report.findings]
    text = json.dumps([_without_ids(finding) for finding in findings], indent=2, ensure_ascii=False)
    values = [
        value
        for finding in findings
        for entry in _entries(finding.details)
        if entry["field"] in _IDENTIFYING
        for value in (*entry["reader"], entry["tool"])
    ]
    origin = "accelscope doctor --cross-check --json"
    gathered = capture.Gathered("accelscope", "cross-check", origin, text=f"{text}\n")
    return gathered, [f"serial: {value}\n" for value in values], report.hung


def _without_ids(finding: "Finding") -> dict[str, Any]:
    """Ids of devices are made from identifiers of several forms, not all of which a mask recognises. Index
    and address remain."""
    ids = {entry["device"]: f"device {entry['index']}" for entry in _entries(finding.details)}
    ids |= dict.fromkeys(finding.details.get("missing_in_tool", ()), "device")
    document = {
        "subject": finding.name,
        "severity": finding.severity.value,
        "found": finding.found,
        "details": finding.details,
    }
    text = json.dumps(document)
    for device, name in ids.items():
        text = text.replace(json.dumps(device)[1:-1], name)
    without: dict[str, Any] = json.loads(text)
    return without


def _entries(details: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The differing values in the details of a finding."""
    if "field" in details:
        yield details
    yield from details.get("differences", ())
    for explained in details.get("explanations", ()):
        yield from explained["values"]


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """A new file that only its owner may read, because masks do not hide everything. An incomplete file is
    removed."""
    if name == "-":
        with _standard_output() as opened:
            yield opened
        return
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with _kept_if_whole(name), os.fdopen(descriptor, "wb") as opened:
            yield opened
    except OSError as error:
        raise ArgumentsError(f"cannot write {name}: {error.strerror}") from None


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    """With its own buffer: sys.stdout may be unbuffered, and then write() may write only a part."""
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as opened:
            yield opened
    except OSError as error:
        raise OutputError(error) from None


@contextmanager
def _kept_if_whole(name: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _hosts(settings: AgentSettings) -> tuple[str, ...]:
    return tuple(name for name in (settings.node_name, socket.gethostname(), os.uname().nodename) if name)


def _users(passwd: Path) -> Iterator[str]:
    try:
        text = passwd.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        cells = line.split(":")
        if len(cells) > 2 and cells[2].isdecimal() and _FIRST_USER <= int(cells[2]) < _NOBODY:
            yield cells[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
