"""A real agent on a simulated node that is about to break, and all that can be seen of it from outside."""

import http.client
import os
import re
import secrets
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import pytest
from tests.agent_process import AgentProcess
from tests.certificates import make_certificates
from tests.costless import costless
from tests.faults.api_front import ApiFront
from tests.faults.matrix import Site
from tests.files import put
from tests.programs import script
from tests.sinks.node_api import NodeApi
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.simulate.workload import SECRET_ARGUMENT

INTERVAL_SECONDS = 0.3
_STEP_SECONDS = 0.25  # of the simulated node
_NODES = {Site.PODS: "nvidia-shared", Site.NODE_OBJECT: "nvidia-h100x8"}
_LOADED = {"device_timeout": "1s", "reader_timeout": "2.5s"}
ONE_PID = """\
node: one-pid
nvidia: {devices: [{model: a100-40gb}]}
processes:
  - {name: first, device: 0, pid: 4242, until: 200, cgroup: {kind: pod, namespace: one, pod: old}}
  - {name: second, device: 0, pid: 4242, from: 200, cgroup: {kind: pod, namespace: two, pod: new}}
"""
_SERIES = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Usage:
    """Of the agent's process."""

    resident_bytes: int
    peak_bytes: int  # the most that was resident since it started
    threads: int
    files: int


class Scene:
    """Runs from entering to leaving it."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.folder = folder
        self.site = site
        self.secrets = {SECRET_ARGUMENT}
        self.environment: dict[str, str] = {}  # the agent's, beside ours
        self.logs: list[str] = []  # of agents that have ended
        self.trouble = folder / "trouble"  # what the tool does first, in the shell's words
        self.expected_pods: frozenset[str] | None = None
        self.ended: Snapshot | None = None  # as the fault ended; None where there was no agent
        self.ended_at: float | None = None  # by the monotonic clock
        spec = costless(ONE_PID if site is Site.ONE_PID else _NODES.get(site, "nvidia-mixed"))
        self.node = SimulatedNode(spec, folder / "node")
        self.stack = ExitStack()  # what ends with the scene
        self.quiet = threading.Lock()  # held while there is no agent to ask
        self._still = threading.Event()
        self._mover = threading.Thread(target=self.node.run, args=(self._still, _STEP_SECONDS), daemon=True)
        # What there is depends on the site.
        self.api: NodeApi
        self.cluster: SimulatedCluster
        self.front: ApiFront
        self.disk: Path
        self.proc: Path
        self.socket: Path
        self.token_file: Path
        self.certificate: Path
        self.key: Path
        self.agent: AgentProcess

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.node.build(100.0)
            settings = {**self.node.agent_settings(), **_LOADED, **self._settings(stack)}
            settings["collection_interval"] = f"{INTERVAL_SECONDS}s"
            if self.site is not Site.ONE_PID:
                self._mover.start()
                stack.callback(self.pause_node)
            token = next((s for s in self.secrets if s.startswith("page-token")), None)
            trust = ssl.create_default_context() if self.site is Site.TLS else None
            if trust is not None:
                trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            self.agent = AgentProcess(settings, folder=self.folder / "log", trust=trust, token=token)
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def _settings(self, stack: ExitStack) -> dict[str, str]:
        match self.site:
            case Site.LIBRARY:
                file = self.folder / "agent.yaml"
                file.write_text("logLevel: debug\n")
                return {"config_file": str(file)}
            case Site.TOOL:
                real = self.node.agent_settings()["nvidia_smi_path"]
                wrapped = f'if [ -e {self.trouble} ]; then . {self.trouble}; fi\nexec {real} "$@"'
                tool = script(self.folder / "nvidia-smi", wrapped)
                return {"nvml_library": str(self.folder / "none"), "nvidia_smi_path": str(tool)}
            case Site.PODS | Site.ONE_PID:
                return self._pods(stack)
            case Site.NODE_OBJECT:
                return self._node_object(stack)
            case Site.FEATURE_FILE:
                self.disk = self.small_disk("features.d", stack)
                return {"feature_labels": "nfd", "feature_file_folder": str(self.disk)}
            case Site.TLS:
                return self._tls()

    def _pods(self, stack: ExitStack) -> dict[str, str]:
        self.cluster = stack.enter_context(SimulatedCluster(self.node, self.folder / "cluster"))
        settings = self.cluster.agent_settings()
        self.front = stack.enter_context(ApiFront(urlsplit(settings["kube_api_url"]).port or 0))
        self.token_file = Path(settings["kube_token_file"])
        self.socket = Path(settings["pod_resources_socket"])
        self.note_token()
        self.proc = self.folder / "proc"
        self.proc.symlink_to(self.node.folder / "proc")
        return {**settings, "kube_api_url": self.front.url, "proc_root": str(self.proc)}

    def _node_object(self, stack: ExitStack) -> dict[str, str]:
        self.api = NodeApi("node-1")
        stack.callback(self.api.close)
        self.token_file = self.folder / "token"
        self.rotate_node_token()
        file = self.folder / "agent.yaml"
        file.write_text("devicesAnnotation: true\nannotationInterval: 1s\nannotationHeartbeat: 5s\n")
        to_the_api = {"kube_api_url": self.api.url, "kube_ca_file": "", "node_name": "node-1"}
        return {**to_the_api, "kube_token_file": str(self.token_file), "config_file": str(file)}

    def _tls(self) -> dict[str, str]:
        (self.folder / "ca").mkdir()
        made = make_certificates(self.folder / "ca")
        self.certificate, self.key = self.folder / "tls.crt", self.folder / "tls.key"
        shutil.copy(made.server, self.certificate)
        shutil.copy(made.server_key, self.key)
        self.secrets.update(_key_lines(self.key))
        self.token_file = self.folder / "page-tokens"
        token = f"page-token-{secrets.token_hex(8)}"
        self.secrets.add(token)
        put(self.token_file, token + "\n")
        files = {"tls_certificate": self.certificate, "tls_key": self.key, "token_file": self.token_file}
        return {name: str(path) for name, path in files.items()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """The agent, as it would be without the tests' coverage: its memory is looked at."""
        self.start()
        try:
            yield
        finally:
            self.node.set_faults(())
            self.trouble.unlink(missing_ok=True)
            self.agent.stop()
            self.logs.append(self.agent.log())

    def start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            self.agent.__enter__()

    def restart(self) -> None:
        with self.quiet:
            self.agent.stop()
            self.logs.append(self.agent.log())
            self.start()

    def pause_node(self) -> None:
        """It no longer moves with the clock."""
        self._still.set()
        self._mover.join(PATIENCE_SECONDS)

    def small_disk(self, name: str, stack: ExitStack) -> Path:
        """One of its own, of 256 KiB; where none can be mounted the test is skipped."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=256k", "accelscope-test", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True, timeout=30)
        return folder

    def note_token(self) -> None:
        self.secrets.add(self.token_file.read_text().strip())

    def rotate_node_token(self) -> None:
        self.api.token = f"node-token-{secrets.token_hex(8)}"
        self.secrets.add(self.api.token)
        put(self.token_file, self.api.token)

    def snapshot(self) -> Snapshot:
        return self.agent.snapshot()

    def over(self) -> None:
        """The fault ends now, and recovery begins. What a break waits for after this is part of it."""
        self.ended, self.ended_at = self.snapshot(), time.monotonic()

    def page(self) -> str:
        answer = self.agent.get("/metrics")
        assert answer.status == 200, answer
        return answer.body.decode()

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        return self.agent.until(condition, what)

    def until_fresh(self, since: Snapshot | None = None) -> Snapshot:
        """Every device was read since then, every source and sink is up, and attribution is complete.
        The clock may have been set meanwhile: a later reading is another one."""
        seen: list[Snapshot] = []
        old = {} if since is None else {device.id: device.read_at for device in since.devices}

        def is_fresh() -> bool:
            snapshot = self.snapshot()
            seen[:] = [snapshot]
            pods = pods_of(snapshot)
            return (
                len(snapshot.devices) == self.node.spec.device_count
                and all(not d.stale and d.read_at != old.get(d.id) for d in snapshot.devices)
                and all(reader.up for reader in snapshot.readers if reader.found)
                and all(source.up for source in snapshot.attribution)
                and all(sink.up for sink in snapshot.sinks)
                and (pods == self.expected_pods if self.expected_pods is not None else self._has_pods(pods))
            )

        try:
            wait_until(is_fresh, "all is fresh")
        except AssertionError:
            state = seen[0]
            raise AssertionError(
                f"not fresh: {[d.id for d in state.devices if d.stale]} {state.readers} {state.attribution} "
                f"{state.sinks} {sorted(pods_of(state))}\n{self.agent.log()}"
            ) from None
        return seen[0]

    def _has_pods(self, pods: frozenset[str]) -> bool:
        return bool(pods) if self.site in (Site.PODS, Site.ONE_PID) else True

    @property
    def pid(self) -> int:
        return self.agent._process.pid

    def usage(self) -> Usage:
        own = Path("/proc") / str(self.pid)
        resident = int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        peak = re.search(r"VmHWM:\s+(\d+) kB", (own / "status").read_text())
        assert peak is not None
        return Usage(
            resident,
            int(peak[1]) << 10,
            len(list((own / "task").iterdir())),
            len(list((own / "fd").iterdir())),
        )

    def zombies(self) -> list[str]:
        """Children of the agent that have ended and whom it has not let go of."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state == "Z" and int(parent) == self.pid:
                found.append(stat.parent.name)
        return found

    def leftovers(self) -> list[str]:
        """What was started from this scene's folder and still runs, by its command line."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.folder) in line:
                found.append(line)
        return found


def pods_of(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(usage.pod for usage in snapshot.pod_usages)


def total(page: str, series: str) -> float:
    """Of all series that fit: `name{label="value"}`, alternatives with a bar between them."""
    names, _, given = series.partition("{")
    wanted = {key: value.split("|") for key, value in _LABEL.findall(given)}
    found = 0.0
    for line in page.splitlines():
        match = None if line.startswith("#") else _SERIES.fullmatch(line)
        if match is None or match["name"] not in names.split("|"):
            continue
        labels = dict(_LABEL.findall(match["labels"] or ""))
        if all(labels.get(key) in values for key, values in wanted.items()):
            found += float(match["value"])
    return found


def _key_lines(key: Path) -> list[str]:
    return [line for line in key.read_text().splitlines() if not line.startswith("-----")]


class Probe:
    """Requests health and metrics continuously, each time with a new connection."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.asked = 0
        self.slowest_seconds = 0.0
        self.wrong: list[str] = []
        self.refused_at: list[float] = []  # when the answer was 503

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            for path in ("/healthz", "/metrics"):
                with self._scene.quiet:
                    self._ask(path)

    def _ask(self, path: str) -> None:
        began = time.monotonic()
        try:
            status = self._scene.agent.get(path).status
        except (OSError, http.client.HTTPException) as error:
            self.wrong.append(f"{path}: {error!r}")
        else:
            if status == 503:
                self.refused_at.append(began)
            elif status != 200:
                self.wrong.append(f"{path}: {status}")
        self.asked += 1
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
