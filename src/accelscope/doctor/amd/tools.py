"""AMD's tools: whether one is there, and whether it answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

from accelscope.doctor.amd import advice
from accelscope.doctor.finding import Finding, note, ok, warning
from accelscope.doctor.subject import Subject
from accelscope.parsing.parsed import Parsed
from accelscope.readers.amd import parse_rocm_json, parse_static
from accelscope.readers.amd.drm import Cards
from accelscope.readers.amd.messages import error_of
from accelscope.readers.contract import ReaderError
from accelscope.readers.tool import Tool

_NAMES = ["--showproductname", "--showbus", "--json"]


def amd_smi(subject: Subject) -> Iterator[Finding]:
    yield _examined(
        subject, "amd-smi", subject.settings.amd_smi_path, ["static", "--json"], parse_static.parse
    )


def rocm_smi(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    stand_in = Tool(settings.amd_smi_path, timeout_seconds=1).find() is None
    if stand_in:
        yield _examined(subject, "rocm-smi", settings.rocm_smi_path, _NAMES, parse_rocm_json.parse)
    elif place := Tool(settings.rocm_smi_path, timeout_seconds=1).find():
        yield ok("rocm-smi", f"{place}, for when there is no amd-smi", path=place)
    else:
        yield note("rocm-smi", f"{settings.rocm_smi_path} not found; it is needed only without amd-smi")


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
        return warning(name, str(problem), advice.advice(problem.reason, subject), reason=problem.reason)
    parsed = parse(output.text)
    if parsed.error is None:
        return ok(name, f"{place} answers for {len(parsed.devices)}", path=place)
    told = error_of(f"{output.text}\n{output.complaint}") or parsed.error
    return warning(
        name,
        f"{command} (exit code {output.exit_code}): {told.text}",
        advice.advice(told.reason, subject),
        reason=told.reason,
    )


def _missing(subject: Subject, name: str, program: str) -> Finding:
    if Path(program).is_file():
        return warning(
            name, f"{program} is there but cannot be executed", f"chmod a+x {program}.", path=program
        )
    needed = bool(Cards(subject.paths.sys).find())
    found = f"{program} not found; the driver's files are read without it"
    return note(name, found, advice.TOOL_ADDS if needed else None)
