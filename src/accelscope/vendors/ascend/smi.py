"""Running npu-smi with the driver's libraries in its path, and checking its output."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelscope.parsing import ParseError, ParseResult
from accelscope.vendors.ascend import DRIVER_ROOT, NPU_SMI, key_values
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import Tool, ToolOutput

_LIBRARY_FOLDERS = ("lib64/driver", "lib64/common", "lib64")  # of the driver's own folder
_DCMI = Path("/usr/local/dcmi")  # the management library is installed outside the driver's folder
_PATH = "LD_LIBRARY_PATH"


def library_folders(driver: Path) -> tuple[Path, ...]:
    """Folders of npu-smi's libraries. The driver's installer adds them to login shells only."""
    return (*(driver / folder for folder in _LIBRARY_FOLDERS), _DCMI)


def environment(options: ReaderOptions) -> Mapping[str, str]:
    base = os.environ if options.environment is None else options.environment
    folders = [str(folder) for folder in library_folders(Path(options.value(DRIVER_ROOT)))]
    return {**base, _PATH: ":".join([*folders, *filter(None, [base.get(_PATH)])])}


@dataclass(frozen=True, slots=True)
class SmiResult:
    parsed: ParseResult
    text: str
    exit_code: int


class NpuSmi:
    """Runs npu-smi. The lock serialises runs, since the driver may refuse a second client (-8020). After
    `patience_seconds` a run starts without the lock: the other run may hang."""

    def __init__(
        self,
        options: ReaderOptions,
        lock: threading.Lock,
        *,
        timeout_seconds: float,
        patience_seconds: float = 1.0,
    ) -> None:
        self._tool = Tool(
            options.value(NPU_SMI), timeout_seconds=timeout_seconds, environment=environment(options)
        )
        self._lock = lock
        self._patience = patience_seconds

    def find(self) -> str | None:
        return self._tool.find()

    def query(self, arguments: Sequence[str], parse: Callable[[str], ParseResult]) -> SmiResult:
        """Run `npu-smi info` with these arguments. Raises ReaderError if the output has no values."""
        output = self._run(arguments)
        text = _whole_lines(output.text)
        parsed = parse(text)
        if parsed.error is not None:
            error = _explain(parsed.error, f"{text}\n{output.complaint}", arguments)
            raise ReaderError(error.reason, f"npu-smi: {error.text}")
        return SmiResult(parsed, text, output.exit_code)

    def _run(self, arguments: Sequence[str]) -> ToolOutput:
        locked = self._lock.acquire(timeout=self._patience)
        try:
            return self._tool.run(["info", *arguments])
        finally:
            if locked:
                self._lock.release()


def chip_arguments(kind: str, board: int, chip: int | None = None) -> list[str]:
    """`chip` is None if the command or the board does not distinguish chips."""
    arguments = ["-t", kind, "-i", str(board)]
    return arguments if chip is None else [*arguments, "-c", str(chip)]


def _whole_lines(text: str) -> str:
    """Without the last line if it is not terminated: it could end within a number."""
    return text[: text.rfind("\n") + 1]


def _explain(error: ParseError, output: str, arguments: Sequence[str]) -> ParseError:
    """A more specific error, if standard error contains one."""
    if error.reason not in ("empty", "unrecognized"):
        return error
    specific = key_values.no_values_error(output, " ".join(["npu-smi info", *arguments]))
    return specific if specific.reason not in ("empty", "unrecognized") else error
