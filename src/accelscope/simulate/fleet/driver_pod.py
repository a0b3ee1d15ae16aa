"""Commands in a driver pod: `nvidia-smi` as the tool itself would answer for that node."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from accelscope.simulate.fleet.fleet_node import FleetNode
from accelscope.simulate.nvidia.readings import GpuReading
from accelscope.simulate.nvidia.smi_query import NOT_AVAILABLE, QueryField, query_fields
from accelscope.simulate.nvidia.smi_text import pmon
from accelscope.simulate.nvidia.spec import NvidiaSpec

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = b"\x01", b"\x02", b"\x03"
_NOT_FOUND = 127
_BAD_QUERY = 2


@dataclass(frozen=True, slots=True)
class Output:
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


def answer(node: FleetNode, command: Sequence[str], at: float) -> Output:
    program, *arguments = command or ("",)
    if program.rpartition("/")[2] != "nvidia-smi":
        return Output(stderr=f'exec: "{program}": executable file not found in $PATH\n', exit_code=_NOT_FOUND)
    spec = node.variant.spec.of(NvidiaSpec)
    shown = tuple(r for r in node.readings("nvidia", at) if r.index is not None)
    if arguments[:1] == ["pmon"]:
        selection = arguments[arguments.index("-s") + 1] if "-s" in arguments[:-1] else "u"
        return Output(pmon(spec, shown, selection))
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if "--query-gpu" in options:
        return _query(node, spec, shown, options["--query-gpu"], options.get("--format", ""))
    return Output(stdout="Invalid combination of input arguments.\n", exit_code=_BAD_QUERY)


def _query(node: FleetNode, spec: NvidiaSpec, shown: tuple[GpuReading, ...], names: str, form: str) -> Output:
    stamp = time.strftime("%Y/%m/%d %H:%M:%S.000", time.gmtime())
    known: dict[str, QueryField] = {}
    for field in query_fields(spec, len(shown), stamp):
        known |= dict.fromkeys((field.name, *field.aliases), field)
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in known:
            return Output(f'Field "{name}" is not a valid field to query.\n', exit_code=_BAD_QUERY)
    fields, words = [known[name] for name in asked], form.split(",")
    units = "nounits" not in words
    lines = [] if "noheader" in words else [", ".join(_headings(fields, units=units))]
    lines += [", ".join(_cells(node, fields, reading, units=units)) for reading in shown]
    return Output("".join(f"{line}\n" for line in lines))


def _headings(fields: Sequence[QueryField], *, units: bool) -> Iterator[str]:
    for field in fields:
        yield f"{field.name} [{field.unit}]" if units and field.unit else field.name


def _cells(
    node: FleetNode, fields: Sequence[QueryField], reading: GpuReading, *, units: bool
) -> Iterator[str]:
    names = node.names()
    for field in fields:
        value = field.value(reading)
        if field.name in ("uuid", "serial") and value != NOT_AVAILABLE:
            value = names.id(value)
        bare = not field.unit or not units or value.startswith("[")
        yield value if bare else f"{value} {field.unit}"


async def serve_command(request: web.BaseRequest, output: Output) -> web.WebSocketResponse:
    """Over WebSocket, in the newest protocol that the client has, too."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(request)
    if output.stdout:
        await socket.send_bytes(_STDOUT + output.stdout.encode())
    if output.stderr:
        await socket.send_bytes(_STDERR + output.stderr.encode())
    await socket.send_bytes(_STATUS + _status(output.exit_code))
    await socket.close()
    return socket


def _status(exit_code: int) -> bytes:
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if exit_code:
        status = {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    return json.dumps(status).encode()
