"""`accelscope capture`: what this node's drivers print, masked, in one archive."""

import argparse
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import Refused, Unwritable, refuse
from accelscope.config import ConfigError, add_arguments, load

_NOTHING = 1
_DEFAULT_OUTPUT = "accelscope-capture.tar.gz"
_TOOL_SECONDS = 30.0  # tools are slow when a device is sick, which is when captures are made
_FIRST_PERSON, _NOBODY = 1000, 65534  # user ids between belong to people

DESCRIPTION = """\
Runs the tools of every accelerator vendor on this node, reads the files that their
drivers show, and saves all of it in one archive, to be attached to a bug report and
dropped into the tests. It changes nothing.

uuids, serial numbers, names of hosts and users, IP and MAC addresses are masked, the
same value by the same mask, and of command lines only the program's name is kept. Look
into the archive before you publish it all the same.

In Kubernetes, run it in the agent's own container:

  kubectl exec -n NAMESPACE POD -- accelscope capture --output - > capture.tar.gz

Exit code: 0 the archive was written (sources that failed are named in it), 1 there is
nothing of any vendor on this node, 2 a setting is bad or the file cannot be written."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "capture",
        usage="accelscope capture [-h] [--output FILE] [--dry-run] [--no-mask] [the agent's options]",
        help="save what this node's drivers print, masked, for a bug report",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=_DEFAULT_OUTPUT,
        help=f"the archive, a new file (default {_DEFAULT_OUTPUT}); - is standard output",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be run and read, and stop")
    parser.add_argument(
        "--no-mask",
        action="store_true",
        help="save everything as it is, with names, numbers and command lines",
    )
    add_arguments(parser, AgentSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = load(AgentSettings, arguments, os.environ).settings
        if arguments.dry_run:
            return _dry_run(settings)
        return _capture(arguments, settings)
    except (ConfigError, Refused) as error:
        return refuse("capture", error)


def _dry_run(settings: AgentSettings) -> int:
    from accelscope import capture  # noqa: PLC0415 - --help and bad settings need none of it

    roots = {"proc": settings.proc_root, "sys": settings.sys_root, "dev": settings.dev_root}
    for plan in capture.plans():
        print(f"{plan.vendor}, where its tools are:")
        for text in (*(command.text for command in plan.commands), *plan.then_text):
            print(f"  run   {text}")
        for tree in plan.trees:
            print(f"  read  {', '.join(f'{roots[tree.root]}/{folder}' for folder in tree.folders)}")
    print("processes on devices:")
    print(f"  read  {settings.proc_root}/PID/cgroup, {settings.proc_root}/PID/mountinfo")
    return 0


def _capture(arguments: argparse.Namespace, settings: AgentSettings) -> int:
    from accelscope import capture  # noqa: PLC0415 - as above

    to_stdout = arguments.output == "-"
    if not to_stdout and Path(arguments.output).exists():
        raise Refused(f"{arguments.output} is there already: name another file with --output")
    if arguments.no_mask:
        _say("NOT MASKED: the archive will hold names, serial numbers and command lines of this node")
    options = replace(settings.reader_options, tool_timeout_seconds=_TOOL_SECONDS)
    gathered = capture.gather(capture.plans(), options, _say)
    if not gathered:
        _say("nothing of any vendor was found; accelscope doctor tells what was looked for")
        return _NOTHING
    users = tuple(_users(Path(settings.passwd_file)))
    mask = capture.Mask(capture.NodeNames(_hosts(settings), users))
    mask.learn(one.text for one in gathered if one.text)
    with _opened(arguments.output) as output:
        files = capture.write_archive(output, gathered, hide=None if arguments.no_mask else mask.apply)
    failed = sum(one.error is not None or bool(one.exit_code) for one in gathered)
    where = "standard output" if to_stdout else arguments.output
    _say(f"{files} files in {where}; {failed} sources gave nothing or not all (manifest.json says why)")
    return 0


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """A file that only its owner may read: masks hide much, not everything. Half of one does not stay."""
    if name == "-":
        with _standard_output() as opened:
            yield opened
        return
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with _kept_if_whole(name), os.fdopen(descriptor, "wb") as opened:
            yield opened
    except OSError as error:
        raise Refused(f"cannot write {name}: {error.strerror}") from None


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    """With a buffer of its own: Python's may be switched off, and then takes a part for the whole."""
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as opened:
            yield opened
    except OSError as error:
        raise Unwritable(error) from None


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
        if len(cells) > 2 and cells[2].isdecimal() and _FIRST_PERSON <= int(cells[2]) < _NOBODY:
            yield cells[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
