"""`accelscope parse SOURCE [FILE]`: parses the saved output of a tool and prints JSON."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from accelscope.cli.output import ArgumentsError, refuse
from accelscope.config import quoted
from accelscope.model import Device, HealthState
from accelscope.model.wire import plain
from accelscope.parsing import DeviceGrant, OutputFormat, ParseResult, sources

_LIMIT_BYTES = 64 * 2**20


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "parse",
        help="parse the saved output of a vendor's tool and print JSON",
        description="Parse the saved output of a vendor's tool and print the values as JSON in base units. "
        "Absent values are left out; `absent` contains the reasons.",
        epilog="Exit code: 0 if the output was parsed, 1 if the document has an `error` (an error message of "
        "the tool, or output of another source), 2 for invalid arguments. `rejected` lines are not errors.",
    )
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="kind of output (see --list)")
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the output (default: standard input)"
    )
    parser.add_argument("--list", action="store_true", help="list the sources and exit")
    parser.add_argument(
        "--fields",
        metavar="NAMES",
        help="column names of a CSV without a header line, separated by commas",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code: 0 if the output was read, 1 if the document has an error, 2 if the command is wrong."""
    try:
        if arguments.list:
            print(_listing())
            return 0
        source = _source(arguments.source)
        fields = _fields(source, arguments.fields)
        parsed = source.parse(_text(arguments.file), fields)
    except ArgumentsError as refusal:
        return refuse("parse", refusal)
    print(json.dumps(document(source, parsed), indent=2, ensure_ascii=False, allow_nan=False))
    return 0 if parsed.error is None else 1


def document(source: OutputFormat, parsed: ParseResult) -> dict[str, Any]:
    return {
        "source": source.name,
        "devices": [_device(device) for device in parsed.devices],
        "processes": plain(parsed.processes),
        **_further_keys(source, parsed),
        "error": plain(parsed.error),
        "rejected": plain(parsed.rejected),
    }


def _further_keys(source: OutputFormat, parsed: ParseResult) -> dict[str, Any]:
    """Lists are present even if the text could not be parsed, like `devices`."""
    match source.output:
        case "containers":
            return {"containers": plain(parsed.containers or ())}
        case "allocations":
            grants = parsed.allocations or ()
            return {"allocations": [_grant(each) for each in grants]}
        case "versions":
            return {"versions": dict(parsed.versions)}
        case "ratio" if parsed.ratio is not None:
            return {"ratio": parsed.ratio}
    return {}


def _grant(grant: DeviceGrant) -> dict[str, Any]:
    return {**plain(grant), "device_ids": list(grant.device_ids)}


def _device(device: Device) -> dict[str, Any]:
    written: dict[str, Any] = plain(device)
    del written["stale"]  # the state of a reader; here there is none
    if device.health.state is HealthState.UNKNOWN and device.health.reason is None:
        del written["health"]
    return written


def _listing() -> str:
    known = sources()
    width = max(map(len, known))
    lines = []
    for source in known.values():
        lines.append(f"{source.name:{width}}  {source.summary}")
        if source.takes_fields:
            lines.append(f"{'':{width}}  --fields, by default {','.join(source.default_fields)}")
    return "\n".join(lines)


def _source(name: str | None) -> OutputFormat:
    known = sources()
    if name is None:
        raise ArgumentsError(f"name a source: {', '.join(known)}")
    if name not in known:
        raise ArgumentsError(f"unknown source {quoted(name)}; allowed: {', '.join(known)}")
    return known[name]


def _fields(source: OutputFormat, text: str | None) -> list[str] | None:
    if text is None:
        return None
    if not source.takes_fields:
        raise ArgumentsError(f"{source.name} names its own columns: leave out --fields")
    fields = [field.strip() for field in text.split(",")]
    if not all(fields):
        raise ArgumentsError(f"--fields {quoted(text)} has an empty name; write them as index,uuid,name")
    return fields


def _text(file: str) -> str:
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_LIMIT_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise ArgumentsError(f"cannot read {file}: {error.strerror}") from None
    if len(content) > _LIMIT_BYTES:
        raise ArgumentsError(f"{file} is larger than {_LIMIT_BYTES // 2**20} MiB, which no tool's output is")
    # A redirection in Windows PowerShell writes UTF-16 with a byte order mark.
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return content.decode(encoding, errors="replace")
