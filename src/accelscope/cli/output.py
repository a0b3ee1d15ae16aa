"""Errors of standard output, the end of commands, and one-line error messages."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TextIO, cast

from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools

_FAILED, _READER_GONE = 2, 141


class OutputError(Exception):
    """Standard output cannot be written. Not an OSError, because commands handle those as errors of files."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.reader_gone = isinstance(error, BrokenPipeError)


class _Output:
    """Standard output, which fails with OutputError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputError(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(error) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def to_the_last_line(command: Callable[[], int]) -> int:
    """Run a command and flush its output, so that the interpreter does not print errors of its own at exit.
    Returns the exit code."""
    before = sys.stdout
    output = cast(TextIO, _Output(before)) if before is not None else before  # None: it was closed
    sys.stdout = output
    try:
        return written(_ended(command))
    except OutputError as failure:
        return _report(failure)
    finally:
        if sys.stdout is output:
            sys.stdout = before
        _flush_stderr()


def _ended(command: Callable[[], int]) -> int:
    """Flush the output also after --help and Ctrl-C."""
    try:
        return command()
    except (SystemExit, KeyboardInterrupt, BrokenPipeError):
        _flush()
        raise


def written(code: int) -> int:
    """Flush the output and return the exit code."""
    try:
        _flush()
    except OutputError as failure:
        return _report(failure)
    return code


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _report(failure: OutputError) -> int:
    _drop(sys.stdout)
    if failure.reader_gone:  # `accelscope parse ... | head`
        return _READER_GONE
    with suppress(OSError):
        print(f"accelscope: cannot write the output: {failure}", file=sys.stderr)
    return _FAILED


def _flush_stderr() -> None:
    """Ignore a standard error that cannot be written."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Discard buffered and further output."""
    with suppress(OSError):  # of a stream that is no file
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def to_the_end(command: Callable[[], tuple[int, bool]]) -> int:
    """Run a command that reads this node, end its tools, and return its exit code. `command` also returns
    whether a driver call hangs; its thread would keep the interpreter from exiting."""
    try:
        code, hangs = command()
    finally:
        start_no_more_tools()
        end_running_tools()
    if hangs:
        os._exit(written(code))
    return code


class ArgumentsError(Exception):
    """Invalid arguments. The text says what to change."""


def refuse(command: str, reason: object) -> int:
    """Print one line to standard error and return the exit code."""
    with suppress(OSError):
        print(f"accelscope {command}: {reason}", file=sys.stderr)
    return 2


# Extra -> modules of its packages.
EXTRAS = {
    "device-plugin": ("grpc", "google.protobuf"),
    "fleet": ("aiohttp", "msgspec", "numpy"),
    "top": ("shtab", "textual"),
}


def missing(extra: str) -> str | None:
    """An error text if a module of the extra is not installed."""
    for module in EXTRAS[extra]:
        if not _is_installed(module):
            return f"{module} is not installed; install the extra where accelscope is: {_ways(extra)}"
    return None


def _ways(extra: str) -> str:
    """Commands that install the extra into the environment of accelscope."""
    wanted = f"'accelscope[{extra}]'"
    return f"pip install {wanted} (with pipx: pipx runpip accelscope install {wanted})"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
