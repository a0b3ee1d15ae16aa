"""A real Prometheus on a folder and a port of its own."""

import json
import math
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest
import yaml
from tests.ports import free_port
from tests.waiting import PATIENCE_SECONDS, wait_until

SCRAPE_INTERVAL_SECONDS = 0.5


class Series(NamedTuple):
    labels: Mapping[str, str]
    value: float


class PrometheusApi:
    """What one tells that listens at this port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> list[Series]:
        result = self._api("query", query=expression)["result"]
        return [Series(series["metric"], float(series["value"][1])) for series in result]

    def value(self, expression: str) -> float | None:
        """The number that an expression with one result has; None where it has none."""
        found = self.query(expression)
        assert len(found) <= 1, f"{expression} has {len(found)} results"
        return found[0].value if found else None

    def holds(self, expression: str, value: float) -> bool:
        found = self.value(expression)
        return found is not None and math.isclose(found, value)

    def until_holds(self, expression: str, value: float) -> None:
        """On a busy machine a scrape may fail now and then: the next one counts as well."""
        wait_until(lambda: self.holds(expression, value), f"{expression} is {value:g}")

    def series(self, expression: str, count: int) -> list[Series]:
        """The series, once there are as many."""
        found: list[Series] = []

        def complete() -> bool:
            found[:] = self.query(expression)
            return len(found) == count

        wait_until(complete, f"{expression} has {count} series")
        return found

    def targets(self) -> Mapping[str, Mapping[str, Any]]:
        """Job -> what Prometheus knows of its target: health, lastError ..."""
        listed = self._api("targets", state="active")["activeTargets"]
        return {target["labels"]["job"]: target for target in listed}

    def metadata(self, job: str) -> dict[str, Mapping[str, str]]:
        """Family -> type, unit and help as they arrived. Units exist in OpenMetrics only."""
        listed = self._api("targets/metadata", match_target=f'{{job="{job}"}}')
        return {entry["metric"]: entry for entry in listed}

    def _api(self, path: str, **parameters: str) -> Any:
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as response:
            return json.load(response)["data"]


class PrometheusServer(PrometheusApi):
    def __init__(
        self,
        folder: Path,
        jobs: Mapping[str, tuple[int, Mapping[str, object]]],
        *,
        external_labels: Mapping[str, str] | None = None,
        rules: Sequence[Mapping[str, object]] = (),
        options: Sequence[str] = (),
        scrape_interval_seconds: float = SCRAPE_INTERVAL_SECONDS,
    ) -> None:
        """Each job is the port of an agent, and what stands in the scrape config beside the target (scheme,
        tls_config, authorization) or in its place (static_configs)."""
        if shutil.which("prometheus") is None:
            pytest.skip("prometheus is not installed (make e2e installs it)")
        folder.mkdir(parents=True)
        super().__init__(free_port())
        self.data = folder / "tsdb"
        self._folder = folder
        self._log = folder / "prometheus.log"
        self._jobs = frozenset(jobs)
        self._options = options
        interval = f"{int(scrape_interval_seconds * 1000)}ms"
        config: dict[str, object] = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "external_labels": dict(external_labels or {}),
            },
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}], **scrape}
                for name, (port, scrape) in jobs.items()
            ],
        }
        if rules:
            groups = {"groups": [{"name": "rules", "interval": interval, "rules": list(rules)}]}
            (folder / "rules.yml").write_text(yaml.safe_dump(groups))
            config["rule_files"] = ["rules.yml"]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        command = [
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *self._options,
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(self._scraped_all, "Prometheus has tried every target")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _scraped_all(self) -> bool:
        assert self._process.poll() is None, f"Prometheus ended at once:\n{self._log.read_text()}"
        try:
            targets = self.targets()
        except (urllib.error.URLError, ConnectionError):
            return False  # it does not serve yet
        return targets.keys() == self._jobs and all(t["health"] != "unknown" for t in targets.values())

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
