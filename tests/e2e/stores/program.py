"""A store's program: begun, waited for, ended."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS, wait_until


@contextmanager
def running(name: str, command: Sequence[str], ready: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`ready`: the URL that answers with success as soon as it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=written)

    def serves() -> bool:
        assert process.poll() is None, f"{name} ended at once:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(ready, timeout=PATIENCE_SECONDS):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        wait_until(serves, f"{name} serves")
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Harmless when it has ended."""
    process.terminate()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
