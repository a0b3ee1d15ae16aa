"""`accelscope fleet` and `accelscope simulate fleet` as users start them: processes of their own."""

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import yaml
from tests.agent_process import Answer
from tests.processes import end
from tests.waiting import PATIENCE_SECONDS, wait_until

_COMMAND = (sys.executable, "-m", "accelscope")


class FleetApi:
    """The API of a fleet at a port of this machine. `token` goes with every request."""

    def __init__(self, port: int = 0, token: str | None = None) -> None:
        self.port = port
        self._token = token

    def ask(self, path: str, method: str = "GET") -> Answer:
        """On a connection of its own. Raises OSError or http.client.HTTPException."""
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, got, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def cluster(self, name: str) -> Any:
        return self.get(f"/api/v1/clusters/{name}")

    def source(self, cluster: str, kind: str) -> Any:
        [found] = [each for each in self.cluster(cluster)["sources"] if each["kind"] == kind]
        return found

    def devices(self, cluster: str) -> list[Any]:
        return list(self.get(f"/api/v1/devices?cluster={cluster}&limit=1000")["items"])

    def until(
        self, cluster: str, condition: Callable[[Any], bool], what: str, seconds: float = PATIENCE_SECONDS
    ) -> Any:
        """The cluster's view, as soon as it fulfils the condition."""
        seen: list[Any] = []

        def fulfilled() -> bool:
            seen[:] = [self.cluster(cluster)]
            return condition(seen[0])

        try:
            wait_until(fulfilled, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen}") from None
        return seen[0]


class FleetProcess(FleetApi):
    """Settings are those of the command line, without the dashes: `{"refresh_interval": "2s"}`."""

    def __init__(
        self, clusters: Sequence[Mapping[str, object]], folder: Path, settings: Mapping[str, str]
    ) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "fleet.log"
        self.clusters_file = folder / "clusters.yaml"
        # JSON is YAML without aliases.
        self.clusters_file.write_text(json.dumps({"clusters": list(clusters)}))
        self._command = [*_COMMAND, "fleet", "--log-format=json", "--listen-port=0"]
        self._command += [f"--clusters-file={self.clusters_file}"]
        self._command += [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=log)
        try:
            wait_until(self._serves, "the fleet tells its address")
            wait_until(lambda: self.ask("/readyz").status == 200, "the fleet is ready")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end(self._process, "the fleet", self._log)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def most_memory_bytes(self) -> int:
        """That it ever had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        [line] = [each for each in status.splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    def _serves(self) -> bool:
        assert self._process.poll() is None, f"the fleet ended at once:\n{self.log()}"
        for line in self.log().splitlines(keepends=True):
            event = json.loads(line) if line.startswith("{") and line.endswith("\n") else {}
            if "url" in event:
                self.port = urlsplit(event["url"]).port or 0
                return True
        return False


class SimulatedClusters:
    """Clusters of a simulator that runs; their entries are for a clusters file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(yaml.safe_load((self._folder / "clusters.yaml").read_text())["clusters"])

    def fault(self, *words: str) -> None:
        command = [*_COMMAND, "simulate", "fleet-fault", str(self._folder), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)


@contextmanager
def simulated_clusters(folder: Path, *options: str) -> Iterator[SimulatedClusters]:
    """Options are those of `accelscope simulate fleet`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*_COMMAND, "simulate", "fleet", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )

    def moves() -> bool:
        said = log.read_text()
        assert process.poll() is None, f"the simulator ended at once:\n{said}"
        return "moving" in said

    try:
        # Some have thousands of nodes.
        wait_until(moves, "the simulated clusters answer", 3 * PATIENCE_SECONDS)
        yield SimulatedClusters(folder)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
