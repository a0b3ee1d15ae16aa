"""A machine whose user has a wheel and reads the documentation; of ours, nothing else is on it."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS, wait_until

_INSTALL_SECONDS = 300.0  # it fetches what the wheel needs
# By which a machine says where it fetches packages from, and whom it trusts.
_OF_THE_NETWORK = re.compile(r"PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|.*_PROXY", re.IGNORECASE)


class Machine:
    """`words` are said in another way here than on the pages: a port that somebody else may have."""

    def __init__(
        self, folder: Path, programs: Path, variables: Mapping[str, str], words: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self._words = words
        own = folder / "pipx"
        network = {name: value for name, value in os.environ.items() if _OF_THE_NETWORK.fullmatch(name)}
        self.environment = {
            **network,
            "PATH": f"{own / 'bin'}:{programs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(Path.home()),  # pip keeps there what it fetched
            "LC_ALL": "C.UTF-8",
            "PIPX_HOME": str(own),
            "PIPX_BIN_DIR": str(own / "bin"),
            "PIPX_MAN_DIR": str(own / "man"),
            **variables,
        }

    def run(self, script: str) -> str:
        """What it says, of a script that ends well."""
        done = subprocess.run(
            ["bash", "-euc", self._here(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """A command that stays, until its user ends it with Ctrl-C."""
        log = self.folder / "running.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._here(command)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
            )
        try:
            yield
            assert process.poll() is None, f"{command} ended by itself:\n{log.read_text()}"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"Ctrl-C did not end {command}:\n{log.read_text()}") from None

    @contextmanager
    def screen(self, command: str) -> Iterator["Screen"]:
        """A terminal with a program in it; what it said last stays to be read."""
        whole = f"{self._here(command)}\necho ended with $?; exec sleep 600"
        opened = Screen(self.folder, self.environment)
        opened.tmux("new-session", "-d", "-x", "120", "-y", "40", shlex.join(["bash", "-c", whole]))
        try:
            yield opened
        finally:
            opened.tmux("kill-server")

    def _here(self, script: str) -> str:
        for word, here in self._words.items():
            script = re.sub(word, here, script)
        return script


class Screen:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**environment, "TERM": "screen-256color"}

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._folder / "tmux"), "-f", "/dev/null", "-u", *words],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def until(self, *words: str) -> None:
        """All of them are there to be read."""
        seen = ""

        def read() -> bool:
            nonlocal seen
            seen = self.tmux("capture-pane", "-p")
            return all(word in seen for word in words)

        try:
            wait_until(read, f"the screen shows {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen}") from None
