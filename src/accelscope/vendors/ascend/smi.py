"""Running npu-smi: with the driver's libraries in its path, and its answers read or refused."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelscope.parsing import Parsed, ParseError
from accelscope.vendors.ascend import DRIVER_ROOT, NPU_SMI, key_values
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import Tool, ToolOutput

_LIBRARY_FOLDERS = ("lib64/driver", "lib64/common", "lib64")  # of the driver's own folder
_DCMI = Path("/usr/local/dcmi")  # the management library is installed beside the driver
_PATH = "LD_LIBRARY_PATH"


def library_folders(driver: Path) -> tuple[Path, ...]:
    """Where npu-smi's libraries are. The driver's installation tells login shells only."""
    return (*(driver / folder for folder in _LIBRARY_FOLDERS), _DCMI)


def environment(options: ReaderOptions) -> Mapping[str, str]:
    given = os.environ if options.environment is None else options.environment
    folders = [str(folder) for folder in library_folders(Path(options.value(DRIVER_ROOT)))]
    return {**given, _PATH: ":".join([*folders, *filter(None, [given.get(_PATH)])])}


@dataclass(frozen=True, slots=True)
class Answer:
    parsed: Parsed
    text: str
    exit_code: int


class NpuSmi:
    """Runs take turns, since a second client of the driver may be refused (-8020). One that has waited for
    its turn as long as it can runs all the same: the other may hang."""

    def __init__(
        self,
        options: ReaderOptions,
        turn: threading.Lock,
        *,
        timeout_seconds: float,
        patience_seconds: float = 1.0,
    ) -> None:
        self._tool = Tool(
            options.value(NPU_SMI), timeout_seconds=timeout_seconds, environment=environment(options)
        )
        self._turn = turn
        self._patience = patience_seconds

    def find(self) -> str | None:
        return self._tool.find()

    def ask(self, arguments: Sequence[str], parse: Callable[[str], Parsed]) -> Answer:
        """Run `npu-smi info` with these arguments. Raises ReaderError where there is no reading in it."""
        output = self._run(arguments)
        text = _whole_lines(output.text)
        parsed = parse(text)
        if parsed.error is not None:
            error = _reason(parsed.error, f"{text}\n{output.complaint}", arguments)
            raise ReaderError(error.reason, f"npu-smi: {error.text}")
        return Answer(parsed, text, output.exit_code)

    def _run(self, arguments: Sequence[str]) -> ToolOutput:
        its_turn = self._turn.acquire(timeout=self._patience)
        try:
            return self._tool.run(["info", *arguments])
        finally:
            if its_turn:
                self._turn.release()


def chip_arguments(kind: str, board: int, chip: int | None = None) -> list[str]:
    """`chip` only where the command and the board know chips."""
    arguments = ["-t", kind, "-i", str(board)]
    return arguments if chip is None else [*arguments, "-c", str(chip)]


def _whole_lines(text: str) -> str:
    """Every line that npu-smi prints ends; the rest of one that does not could be half a number."""
    return text[: text.rfind("\n") + 1]


def _reason(error: ParseError, said: str, arguments: Sequence[str]) -> ParseError:
    """What stands on standard error may be the reason."""
    if error.reason not in ("empty", "unrecognized"):
        return error
    told = key_values.no_reading(said, " ".join(["npu-smi info", *arguments]))
    return told if told.reason not in ("empty", "unrecognized") else error
