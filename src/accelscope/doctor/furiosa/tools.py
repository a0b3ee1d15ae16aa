"""The vendor's tools: which are there, and whether they answer."""

from collections.abc import Iterator
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.doctor.finding import Finding, note, ok, warning
from accelscope.doctor.furiosa import advice
from accelscope.doctor.furiosa.cards import entries
from accelscope.doctor.subject import Subject
from accelscope.readers.contract import ReaderError
from accelscope.readers.furiosa import messages, parse_info
from accelscope.readers.tool import Tool


def seconds(settings: AgentSettings) -> float:
    """Of both tools, one after the other."""
    return 2 * settings.reader_timeout + 1


def tools(subject: Subject) -> Iterator[Finding]:
    shown = entries(subject.paths) or ()
    families = {entry.architecture for entry in shown}
    settings = subject.settings
    for name, program in (
        ("furiosa-smi", settings.furiosa_smi_path),
        ("furiosactl", settings.furiosactl_path),
    ):
        tool = Tool(program, timeout_seconds=settings.reader_timeout)
        place = tool.find()
        if place is not None:
            yield _asked(subject, name, tool, place)
        elif Path(program).is_file():
            yield warning(name, f"{program} is there but cannot be executed", f"chmod a+x {program}.")
        elif name == "furiosa-smi" and "rngd" in families:
            yield warning(
                name,
                f"{program} not found: processes of RNGD cards are absent, and with drivers before 2026.4 "
                "memory and utilisation by core",
                advice.advice("tool_missing", subject),
            )
        else:
            yield note(name, f"{program} not found")


def _asked(subject: Subject, name: str, tool: Tool, place: str) -> Finding:
    try:
        output = tool.run(["info"])
    except ReaderError as problem:
        return warning(name, str(problem), advice.advice(problem.reason, subject), path=place)
    parsed = parse_info.parse(output.text, f"{name} info")
    if parsed.error is None:
        return ok(name, f"{place} shows {len(parsed.devices)}", path=place)
    # Messages go to either of the two outputs.
    said = messages.error_of(output.complaint) or parsed.error
    return warning(name, f"{place}: {said.text}", advice.advice(said.reason, subject), reason=said.reason)
