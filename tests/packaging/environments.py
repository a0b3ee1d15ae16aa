"""Environments that hold the built wheel and what it asks for, and nothing else. Nothing is fetched: packages
that this interpreter has are lent to them, and uv says whether those are all that the wheel asks for."""

import http.client
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from tests.processes import end
from tests.waiting import PATIENCE_SECONDS, wait_until

_PORT = re.compile(r'"port": ?(\d+)|"url": ?"http://[^"]*:(\d+)"')


class Environment:
    """An environment with the wheel and, where one is named, an extra."""

    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        self._folder = folder
        self.command = folder / "bin" / "accelscope"
        python = folder / "bin" / "python"
        _done([sys.executable, "-m", "venv", "--without-pip", folder])
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(_done([python, "-I", "-c", where]).strip())
        [ours] = Distribution.discover(name="accelscope", path=[str(wheel)])
        for lent in _needed(ours, extra).values():
            _lend(lent, packages)
        named = f"accelscope[{extra}]" if extra else "accelscope"
        uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--python", str(python)]
        _done([*uv, "--offline", "--no-index", "--no-config", "--no-cache", f"{named} @ {wheel.as_uri()}"])

    def run(self, *words: str | Path, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.command, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=self._folder,
            env=self.variables(),
        )
        assert done.returncode in codes, (done.stdout, done.stderr)
        return done

    @contextmanager
    def serving(self, *words: str | Path) -> Iterator["Served"]:
        """Started, and ended at the end. It must tell its port in a log of JSON."""
        log = self._folder / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [self.command, *words], stdout=output, stderr=output, cwd=self._folder, env=self.variables()
            )
        try:
            served = Served(log)
            wait_until(lambda: served.port > 0 or child.poll() is not None, f"{words[0]} tells its port")
            yield served
        finally:
            end(child, str(words[0]), log)

    def on_terminal(self, *words: str | Path, keys: bytes = b"", after: bytes = b"") -> tuple[int, bytes]:
        """Exit code and everything that was shown on a terminal. Keys are pressed as soon as something is
        seen."""
        terminal, inside = pty.openpty()
        child = subprocess.Popen(
            [self.command, *words],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            cwd=self._folder,
            env=self.variables(),
        )
        os.close(inside)
        shown, pressed = b"", not keys
        while chunk := _read(terminal):
            shown += chunk
            if not pressed and after in shown:
                os.write(terminal, keys)
                pressed = True
        os.close(terminal)
        return child.wait(PATIENCE_SECONDS), shown

    def variables(self) -> dict[str, str]:
        """Nothing of this interpreter's own."""
        path = os.environ["PATH"].split(":")
        outside = [folder for folder in path if not folder.startswith(sys.prefix)]
        return {"PATH": ":".join(outside), "HOME": str(self._folder), "LANG": "C.UTF-8", "TERM": "xterm"}


class Served:
    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def port(self) -> int:
        """0 while it is not known."""
        found = _PORT.search(self._log.read_text())
        return int(found[1] or found[2]) if found else 0

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def _needed(wanting: Distribution, *extras: str) -> dict[str, Distribution]:
    """What it asks for, and what those ask for."""
    found: dict[str, Distribution] = {}
    for requirement in map(Requirement, wanting.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or ("",)):
            found[requirement.name] = distribution(requirement.name)
            found |= _needed(found[requirement.name], *requirement.extras)
    return found


def _lend(lent: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in lent.files or ()} - {"..", "__pycache__"}:
        source, place = Path(str(lent.locate_file(name))), packages / name
        if name.endswith(".dist-info"):
            shutil.copytree(source, place, dirs_exist_ok=True)  # uv overlooks links
        elif not place.exists():
            place.symlink_to(source)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def _done(command: Iterable[str | Path]) -> str:
    done = subprocess.run(list(command), check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
