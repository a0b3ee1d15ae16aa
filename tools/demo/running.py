"""Runs the demo: starts all processes, plays the story, and ends everything."""

import json
import shutil
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from accelscope.simulate.fleet.description import FleetSpec, load_fleet
from accelscope.simulate.fleet.faults import write_faults
from tools.demo import prometheus
from tools.demo.children import Child, ChildEnded, Children, answers
from tools.demo.clusters import LAB_CLUSTER, LAB_NODE, description, write_kinds
from tools.demo.lab import Lab
from tools.demo.settings import HOST, Settings
from tools.demo.story import PlayedScene, Story, changes, faults_before
from tools.demo.targets import Targets

_ACCELSCOPE = str(Path(sys.executable).with_name("accelscope"))
_REFRESH = "5s"
_STALE_AFTER = "30s"
_LONGEST_SLEEP_SECONDS = 5.0  # of the story: a machine that was asleep is found out so soon
_TARGETS_SECONDS = 5.0  # between looks for agents that came or went

Tell = Callable[[str], None]


def _silent(_: str) -> None:
    pass


class Demo:
    """Runs from the moment it is entered until it is left. `folder` must be there; it gets files and logs.

    `progress` is told what is being done while it starts, `events` what happens then. `story=False`: nothing
    happens but what `show()` is given, until `begin_story()`.
    """

    def __init__(
        self,
        folder: Path | str,
        settings: Settings | None = None,
        *,
        story: bool = True,
        progress: Tell = _silent,
        events: Tell = _silent,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.settings = settings or Settings()
        self._story_wanted = story
        self._progress, self._events = progress, events
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: Exception | None = None
        self._before: tuple[PlayedScene, ...] = ()
        self._targets: Targets | None = None
        port, agent_port, prometheus_port = self.settings.ports()
        self.page_url = f"http://{HOST}:{port}"
        self.agent_url = f"http://{HOST}:{agent_port}"
        installed = self.settings.prometheus and shutil.which("prometheus") is not None
        self.prometheus_url = f"http://{HOST}:{prometheus_port}" if installed else None
        self.lab = Lab(self.folder / "lab")
        self._fleet_folder = self.folder / "fleet"
        self._fleet: FleetSpec | None = None

    @property
    def clusters_file(self) -> Path:
        """That the fleet reads."""
        return self._fleet_folder / "clusters.yaml"

    @property
    def fleet(self) -> FleetSpec:
        """What is simulated. Only of a demo that was entered."""
        assert self._fleet is not None
        return self._fleet

    @property
    def alerts_url(self) -> str | None:
        """The page of alerts, where this Prometheus has it: Debian's has the classic pages only."""
        pages = (f"{self.prometheus_url}{path}" for path in ("/alerts", "/classic/alerts"))
        return None if self.prometheus_url is None else next(filter(answers, pages), self.prometheus_url)

    @property
    def process_ids(self) -> dict[str, int]:
        return self._children.process_ids

    def __enter__(self) -> Self:
        """Raises ChildEnded."""
        with ExitStack() as stack:
            self._children = stack.enter_context(Children(self.folder))
            stack.callback(self._end_threads)
            self._start()
            if self._targets is not None:
                self._in_thread(self._keep_targets)
            if self._story_wanted:
                self.begin_story()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def check(self) -> None:
        """Raises ChildEnded where something is gone that should run."""
        self._children.check()
        if self._failure is not None:
            raise ChildEnded(f"the demo itself failed: {self._failure!r}")

    def begin_story(self) -> None:
        """Starts the story."""
        self._in_thread(self._follow)

    def show(self, scenes: tuple[PlayedScene, ...]) -> None:
        """Replaces the current faults."""
        write_faults(
            self._fleet_folder,
            [h.fault() for h in scenes if not (h.on_lab_node or h.began_before)],
        )
        own = tuple(h for h in scenes if h.on_lab_node)
        if own != tuple(h for h in self._before if h.on_lab_node):
            self.lab.show(own)
        for line in changes(self._before, scenes):
            self._events(line)
        self._before = scenes

    def ask(self, path: str) -> Any:
        """The fleet's API."""
        with urllib.request.urlopen(f"{self.page_url}{path}", timeout=60) as answer:
            return json.load(answer)

    # --- starting ---------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._progress(f"building the simulated node {self.settings.node} and three simulated clusters")
        node, clusters = self._start_simulated()
        self._wait_for_word(node)
        self._wait_for_word(clusters)
        self._progress("starting a real agent on the node, and the fleet")
        self._start_agent()
        fleet = self._start_fleet()
        if self.prometheus_url is not None:
            self._progress("starting Prometheus, which scrapes every agent")
            self._start_prometheus()
        self._progress("waiting until the fleet has read every node")
        self._children.wait_for(fleet, self._has_read_all)

    def _start_simulated(self) -> tuple[Child, Child]:
        file = self.folder / "description.yaml"
        node = self.folder / "lab.yaml"
        self.lab.describe(self.settings.node, node)
        write_kinds(self.folder / "kinds")
        told = description(self.settings.nodes, self.folder / "kinds", node, self.agent_url)
        file.write_text(yaml.safe_dump({**told, "faults": faults_before(told)}, sort_keys=False))
        self._fleet = load_fleet(file)
        return (
            self._children.start("simulated node", _ACCELSCOPE, "simulate", "run", node, self.lab.folder),
            self._children.start(
                "simulated clusters", _ACCELSCOPE, "simulate", "fleet", self._fleet_folder, file
            ),
        )

    def _wait_for_word(self, child: Child) -> None:
        self._children.wait_for(child, lambda: "moving" in child.said())

    def _start_agent(self) -> None:
        self.lab.write_settings()
        agent = self._children.start(
            *("agent", _ACCELSCOPE, "agent", "--config-file", self.lab.settings_file),
            *("--exporter-host", HOST, "--exporter-port", _port(self.agent_url), "--log-level", "warning"),
        )
        self._children.wait_for(agent, lambda: answers(f"{self.agent_url}/readyz"))

    def _start_fleet(self) -> Child:
        fleet = self._children.start(
            *("fleet", _ACCELSCOPE, "fleet", "--clusters-file", self.clusters_file),
            *("--listen-host", HOST, "--listen-port", _port(self.page_url), "--log-level", "warning"),
            *("--refresh-interval", _REFRESH, "--stale-after", _STALE_AFTER),
        )
        self._children.wait_for(fleet, lambda: answers(f"{self.page_url}/readyz"))
        return fleet

    def _start_prometheus(self) -> None:
        assert self.prometheus_url is not None
        clusters = yaml.safe_load(self.clusters_file.read_text())["clusters"]
        told = prometheus.configuration(
            self.folder,
            clusters,
            fleet_port=_port(self.page_url),
            interval_seconds=self.settings.scrape_seconds,
        )
        self._targets = Targets(self.folder, clusters)
        self._targets.write()
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(told, sort_keys=False))
        command = prometheus.command(self.folder, _port(self.prometheus_url))
        child = self._children.start("prometheus", *command)
        self._children.wait_for(child, lambda: answers(f"{self.prometheus_url}/-/ready"))

    def _has_read_all(self) -> bool:
        if not answers(f"{self.page_url}/api/v1/nodes/{LAB_CLUSTER}/{LAB_NODE}"):
            return False
        wanted = sum(cluster.node_count for cluster in self.fleet.clusters)
        return int(self.ask("/api/v1/summary")["total"]["nodes"]) >= wanted

    # --- what happens -----------------------------------------------------------------------------------

    def _follow(self) -> None:
        story, began = Story(self.fleet), time.monotonic()
        while not self._stop.is_set():
            at = time.monotonic() - began
            now = story.at(at)
            if now != self._before:
                self.show(now)
            self._stop.wait(min(story.next_change(at) - at, _LONGEST_SLEEP_SECONDS))

    def _keep_targets(self) -> None:
        assert self._targets is not None
        while not self._stop.wait(_TARGETS_SECONDS):
            self._targets.write()

    def _in_thread(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a thread must not fail unseen: check() tells
                self._failure = error

        self._threads.append(threading.Thread(target=guarded, daemon=True))
        self._threads[-1].start()

    def _end_threads(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_LONGEST_SLEEP_SECONDS)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
