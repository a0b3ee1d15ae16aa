"""Programs that run to their end."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.kubernetes.errors import CommandFailed

_TOLD_LINES = 40  # of a failed program's words; a build may have said thousands


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    input: str | None = None,  # noqa: A002 - as subprocess calls it
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 120.0,
) -> str:
    """What it wrote to its standard output. Raises CommandFailed."""
    words = [os.fspath(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            cwd=folder,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise CommandFailed(words, 127, f"{words[0]} is not installed (make e2e installs it)") from None
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
        raise CommandFailed(words, None, said.decode(errors="replace")) from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CommandFailed(words, done.returncode, "\n".join(lines[-_TOLD_LINES:]))
    return done.stdout
