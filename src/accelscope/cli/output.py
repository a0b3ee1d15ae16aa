"""Standard output that cannot be written: a full disk is told in one line, a reader who has gone is not."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TextIO, cast

from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools

_FAILED, _READER_GONE = 2, 141


class Unwritable(Exception):
    """No OSError: what a command says of its files, and argparse's silence, are not for standard output."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.reader_gone = isinstance(error, BrokenPipeError)


class _Output:
    """Standard output, which fails with Unwritable."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise Unwritable(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise Unwritable(error) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def to_the_last_line(command: Callable[[], int]) -> int:
    """Its exit code, or that of output which cannot be written: nothing is left for the interpreter to write
    when it ends, which would say so in its own way."""
    before = sys.stdout
    output = cast(TextIO, _Output(before)) if before is not None else before  # None: it was closed
    sys.stdout = output
    try:
        return written(_ended(command))
    except Unwritable as failure:
        return _tell(failure)
    finally:
        if sys.stdout is output:
            sys.stdout = before
        _let_go_of_errors()


def _ended(command: Callable[[], int]) -> int:
    """Also where it ends otherwise, as --help and Ctrl-C do, what it printed is written."""
    try:
        return command()
    except (SystemExit, KeyboardInterrupt, BrokenPipeError):
        _flush()
        raise


def written(code: int) -> int:
    """The exit code once all that was printed is written."""
    try:
        _flush()
    except Unwritable as failure:
        return _tell(failure)
    return code


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _tell(failure: Unwritable) -> int:
    _drop(sys.stdout)
    if failure.reader_gone:  # `accelscope parse ... | head`
        return _READER_GONE
    with suppress(OSError):
        print(f"accelscope: cannot write the output: {failure}", file=sys.stderr)
    return _FAILED


def _let_go_of_errors() -> None:
    """Nobody can be told that standard error is full, and no command has failed by it."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """What it holds, and what still comes."""
    with suppress(OSError):  # of a stream that is no file
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


# --- ending ------------------------------------------------------------
# How a command that reads this node ends: no tool outlives it, and no driver call that hangs keeps it.


def to_the_end(command: Callable[[], tuple[int, bool]]) -> int:
    """Its exit code. `command` gives that, and whether a call into a driver hangs: a thread inside one would
    keep the interpreter from ending."""
    try:
        code, hangs = command()
    finally:
        start_no_more_tools()
        end_running_tools()
    if hangs:
        os._exit(written(code))
    return code


# --- refusal ------------------------------------------------------------
# A command that is not carried out as it was given.


class Refused(Exception):
    """The text says what to change."""


def refuse(command: str, reason: object) -> int:
    """Say why in one line on standard error. The exit code."""
    with suppress(OSError):  # a full disk does not change what the code says
        print(f"accelscope {command}: {reason}", file=sys.stderr)
    return 2


# --- extras ------------------------------------------------------------
# What the bare install lacks, and how to get it.


# Extra -> the modules that its commands import, of every package that it asks for.
EXTRAS = {
    "device-plugin": ("grpc", "google.protobuf"),
    "fleet": ("aiohttp", "msgspec", "numpy"),
    "top": ("shtab", "textual"),
}


def missing(extra: str) -> str | None:
    """One line on what is not installed and what to do; None where all of it is there."""
    for module in EXTRAS[extra]:
        if not _is_installed(module):
            return f"{module} is not installed; install the extra where accelscope is: {_ways(extra)}"
    return None


def _ways(extra: str) -> str:
    """Into the environment that runs accelscope, which with pipx is not the user's."""
    wanted = f"'accelscope[{extra}]'"
    return f"pip install {wanted} (with pipx: pipx runpip accelscope install {wanted})"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
