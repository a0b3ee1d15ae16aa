"""`accelscope agent` and `accelscope discover` as users start them: processes of their own."""

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.processes import end
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import Snapshot, Vendor
from accelscope.model.wire import read_snapshot

# Where nothing hangs, nothing is given up, however busy the machine is.
PATIENT = {"device_timeout": "30s", "reader_timeout": "60s"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class AgentProcess:
    """An agent on a port of its own choosing. Settings are those of the command line, without the dashes:
    `{"nvml_library": "..."}`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        folder: Path,
        *,
        trust: ssl.SSLContext | None = None,
        token: str | None = None,
    ) -> None:
        """`trust` makes this object's own requests HTTPS, `token` goes with them."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "agent.log"
        self._trust = trust
        self._token = token
        given = {
            "exporter_host": "127.0.0.1",
            "exporter_port": "0",
            "collection_interval": "0.3s",
            **PATIENT,
            **settings,
        }
        self._command = [sys.executable, "-m", "accelscope", "agent", "--log-format", "json"]
        for name, value in given.items():
            self._command += [f"--{name.replace('_', '-')}", value]
        self.port = 0

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=log)
        try:
            wait_until(self._serves, "the agent tells its port")
            wait_until(lambda: self.get("/readyz", guarded=False).status == 200, "the agent is ready")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Harmless when it has ended already."""
        end(self._process, "the agent", self._log)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str, *, guarded: bool = True, **headers: str) -> Answer:
        """One request on a connection of its own; `accept="..."` is a header."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if guarded and self._token is not None:
            sent.setdefault("authorization", f"Bearer {self._token}")
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
            if self._trust is None
            else http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=PATIENCE_SECONDS, context=self._trust
            )
        )
        try:
            connection.request("GET", path, headers=sent)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def snapshot(self) -> Snapshot:
        answer = self.get("/snapshot")
        assert answer.status == 200, answer.body
        return read_snapshot(json.loads(answer.body))

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """The first snapshot that fulfils the condition. An agent that has no room just now (503) is asked
        again."""
        seen: list[Snapshot] = []

        def fulfilled() -> bool:
            answer = self.get("/snapshot")
            if answer.status == 503:
                return False
            assert answer.status == 200, answer.body
            seen[:] = [read_snapshot(json.loads(answer.body))]
            return condition(seen[0])

        wait_until(fulfilled, what)
        return seen[0]

    def settled(self) -> Snapshot:
        """A snapshot once every reader found nothing or came through two passes: values between two samples
        need two. (Collections do not count: they are made while a slow reader's first pass lasts.)"""
        passes: dict[Vendor, set[float]] = {}

        def through(snapshot: Snapshot) -> bool:
            for reader in snapshot.readers:
                passes.setdefault(reader.vendor, set()).update(filter(None, [reader.last_success]))
            return all(
                reader.duration_seconds is not None and (not reader.found or len(passes[reader.vendor]) >= 2)
                for reader in snapshot.readers
            )

        return self.until(through, "two passes of every reader")

    def _serves(self) -> bool:
        assert self._process.poll() is None, f"the agent ended at once:\n{self.log()}"
        for line in self.log().splitlines(keepends=True):
            if line.endswith("\n") and "port" in (event := json.loads(line)):
                self.port = event["port"]
                return True
        return False


def discover(settings: dict[str, str], *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    given = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    return subprocess.run(
        [sys.executable, "-m", "accelscope", "discover", *flags, *given],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
