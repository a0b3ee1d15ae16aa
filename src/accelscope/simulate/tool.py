"""A vendor's tool as a program that knows its answers by heart (native/tool.c).

The driver states, at every step, what the tool would print to which command line. For tools that make their
output out of freely combined options a vendor brings a program of its own, as NVIDIA does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelscope.simulate.compiler import NativePart
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.spec import FREE, ToolCost
from accelscope.simulate.vendor import InstalledPart

_PROGRAM = NativePart(name="tool", folder=Path(__file__).parent / "native", sources=("tool.c",))
_SPOILING = {
    FaultKind.TOOL_GARBAGE: "garbage",
    FaultKind.TOOL_TRUNCATED: "truncated",
    FaultKind.TOOL_NON_UTF8: "non_utf8",
    FaultKind.TOOL_KILLED: "killed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool does when its arguments, with one blank between, fit one of the patterns (the shell's: `*`
    for anything, `?` for one letter). Without patterns: always."""

    patterns: tuple[str, ...] = ("*",)
    text: str | bytes = ""
    error_text: str = ""  # on standard error
    exit_code: int = 0
    hangs: bool = False  # does not return while this is the answer, then gives the one that has come


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    cost: ToolCost = FREE
    library: str | None = None  # what the loader must find in LD_LIBRARY_PATH before the tool starts at all
    errors: Mapping[str, Answer] = field(default_factory=dict)  # by their names in a tool_error

    @property
    def installed(self) -> InstalledPart:
        return InstalledPart(_PROGRAM, f"bin/{self.name}", FaultKind.TOOL_MISSING)

    def state_file(self, answers: Iterable[Answer], active: Iterable[Fault]) -> tuple[str, bytes]:
        """Among the driver's files: what the tool says, the first fitting answer. The tool's own faults are
        seen to; what faults of devices or of the driver do to its answers is the driver's to say."""
        own = [fault for fault in active if fault.kind.of_tool and fault.tool in (None, self.name)]
        lines = [f"cost {self.cost.cpu_milliseconds} {self.cost.memory_mib}"]
        if self.library is not None:
            lines.append(f"library {self.library}")
        lines += [f"spoil {_SPOILING[fault.kind]}" for fault in own if fault.kind in _SPOILING]
        texts: list[bytes] = []
        for answer in (*self._faulty_answers(own), *answers):
            output = answer.text.encode() if isinstance(answer.text, str) else answer.text
            errors = answer.error_text.encode()
            lines.append(f"answer {answer.exit_code} {len(output)} {len(errors)} {int(answer.hangs)}")
            lines += [f"match {pattern}" for pattern in answer.patterns]
            texts += (output, errors)
        head = "".join(f"{line}\n" for line in lines)
        return f"state/{self.name}", b"".join((head.encode(), b"\n", *texts))

    def _faulty_answers(self, faults: Iterable[Fault]) -> Iterable[Answer]:
        for fault in faults:
            if fault.kind is FaultKind.TOOL_HANG:
                yield Answer(hangs=True)
            elif answer := self.errors.get(fault.error or ""):
                yield answer
