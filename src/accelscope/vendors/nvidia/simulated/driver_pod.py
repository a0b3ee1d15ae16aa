"""The driver pod of the GPU operator: `nvidia-smi` as the tool itself would answer there."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from accelscope.simulate.vendor import CommandOutput, DriverPod
from accelscope.vendors.nvidia.simulated.readings import GpuReading
from accelscope.vendors.nvidia.simulated.smi_query import QueryField, query_fields
from accelscope.vendors.nvidia.simulated.smi_text import pmon
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

_NOT_FOUND = 127
_BAD_QUERY = 2


def _run(spec: Any, readings: tuple[Any, ...], command: Sequence[str]) -> CommandOutput:
    program, *arguments = command or ("",)
    if program.rpartition("/")[2] != "nvidia-smi":
        error = f'exec: "{program}": executable file not found in $PATH\n'
        return CommandOutput(stderr=error, exit_code=_NOT_FOUND)
    shown = tuple(reading for reading in readings if reading.index is not None)
    if arguments[:1] == ["pmon"]:
        selection = arguments[arguments.index("-s") + 1] if "-s" in arguments[:-1] else "u"
        return CommandOutput(pmon(spec, shown, selection))
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if "--query-gpu" in options:
        return _query(spec, shown, options["--query-gpu"], options.get("--format", ""))
    return CommandOutput("Invalid combination of input arguments.\n", exit_code=_BAD_QUERY)


def _query(spec: NvidiaSpec, shown: tuple[GpuReading, ...], names: str, form: str) -> CommandOutput:
    stamp = time.strftime("%Y/%m/%d %H:%M:%S.000", time.gmtime())
    known: dict[str, QueryField] = {}
    for field in query_fields(spec, len(shown), stamp):
        known |= dict.fromkeys((field.name, *field.aliases), field)
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in known:
            return CommandOutput(f'Field "{name}" is not a valid field to query.\n', exit_code=_BAD_QUERY)
    fields, words = [known[name] for name in asked], form.split(",")
    units = "nounits" not in words
    lines = [] if "noheader" in words else [", ".join(_headings(fields, units=units))]
    lines += [", ".join(_cells(fields, reading, units=units)) for reading in shown]
    return CommandOutput("".join(f"{line}\n" for line in lines))


def _headings(fields: Sequence[QueryField], *, units: bool) -> Iterator[str]:
    for field in fields:
        yield f"{field.name} [{field.unit}]" if units and field.unit else field.name


def _cells(fields: Sequence[QueryField], reading: GpuReading, *, units: bool) -> Iterator[str]:
    for field in fields:
        value = field.value(reading)
        bare = not field.unit or not units or value.startswith("[")
        yield value if bare else f"{value} {field.unit}"


DRIVER_POD = DriverPod(
    namespace="gpu-operator",
    daemon_set="nvidia-driver-daemonset",
    labels={
        "app": "nvidia-driver-daemonset",
        "app.kubernetes.io/component": "nvidia-driver",
        "nvidia.com/precompiled": "false",
    },
    container="nvidia-driver-ctr",
    image="nvcr.io/nvidia/driver:590.48.01-ubuntu24.04",
    run=_run,
)
