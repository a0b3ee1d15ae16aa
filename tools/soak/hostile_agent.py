"""`python -m tools.soak.hostile_agent`: a fleet reads clusters of which one agent tries to fill its memory.

The agent sends some 15 MB that it never sent before with each answer. As many refreshes as an hour has are
done one after the other. Ends with 1 where the fleet's memory grows, where a good cluster suffers, or where a
refused reading is not reported as the reason of its node.
"""

import argparse
import contextlib
import gzip
import http.client
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml
from bench.children import AGENT, Child, free_port, running
from bench.fleet_process import Api
from bench.scraper import percentile
from bench.tables import Table, mib, ms

REFRESHES_AN_HOUR = 240  # at the default interval of 15 s
HOSTILE, NODE = "hostile", "hostile-node"
# The fleet's pod has 1 GiB. Good clusters take some 80 MiB here, and an answer of 16 MiB takes some more
# while it is read.
CEILING_BYTES = 256 << 20
# After the warm-up. The allocator may keep the buffers of one answer, and the first minute of history takes
# 7 MiB, whenever that begins. Before there were limits, a few answers brought more than this.
_GROWTH_BYTES = 40 << 20
_WARM_UP = 0.25  # of the refreshes
_ANSWER_BYTES = 15_000_000
_ROWS = 12
_GOOD_CLUSTERS, _GOOD_NODES = 2, 5
_REFRESH_INTERVAL = "2s"  # of the good clusters; the hostile one is also refreshed on demand
_PATIENCE_SECONDS = 120.0
_SLOWEST_SECONDS = 1.0  # of an answer of the API, p99
_ASKED_EVERY_SECONDS = 0.05
_POD = "/api/v1/namespaces/accelscope-system/pods"


def _long_text() -> dict[str, Any]:
    """One text that is as long as an answer may be, and compresses well."""
    return {"devices": [{"vendor": "nvidia", "id": "nvidia:a", "model": _noise(100) + "x" * _ANSWER_BYTES}]}


def _incompressible() -> dict[str, Any]:
    """As long, and nothing can be saved by compressing it."""
    return {"devices": [{"vendor": "nvidia", "id": "nvidia:a", "model": _noise(_ANSWER_BYTES)}]}


def _many_texts() -> dict[str, Any]:
    """Texts that are each short enough, and new: such a reading is taken."""
    device = {"vendor": "nvidia", "id": "nvidia:a", "index": 0}
    names = [_noise(900) for _ in range(1000)]
    processes = [{"pid": pid, "device": "nvidia:a", "name": name} for pid, name in enumerate(names)]
    return {"devices": [device], "processes": processes}


def _noise(length: int) -> str:
    return os.urandom(length // 2).hex()


# What is sent, and what the reason of the node must hold; None: the reading is taken.
ATTACKS: dict[str, tuple[Callable[[], dict[str, Any]], str | None]] = {
    "long-text": (_long_text, "a text of more than 1024 characters in devices[0].model"),
    "incompressible": (_incompressible, "that do not compress"),
    "many-texts": (_many_texts, None),
}


class _HostileCluster(BaseHTTPRequestHandler):
    """An API server as far as the fleet asks one, with one agent behind it."""

    protocol_version = "HTTP/1.1"
    attack: str

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if "watch=true" in query:
            self._watch()
        elif path == "/version":
            self._send({"gitVersion": "v1.33.0"})
        elif path == "/api/v1/nodes":
            self._send(
                _listed({"metadata": {"name": NODE}, "status": {"allocatable": {"nvidia.com/gpu": "1"}}})
            )
        elif path == _POD:
            self._send(_listed(_agent_pod()))
        elif path.endswith("/proxy/snapshot"):
            made, _ = ATTACKS[self.attack]
            now = time.time()
            head = {"schema_version": "1.1", "node": NODE, "taken_at": now}
            self._send({**head, "agent": {"version": "0.1.0", "started_at": now}, **made()})
        else:
            self.send_error(404)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:  # nothing happens
                time.sleep(1.0)

    def _send(self, document: object) -> None:
        body = gzip.compress(json.dumps(document).encode(), 1)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # who asked has gone: it was too much for the first limit
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """The fleet ends connections on which too much comes."""


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [item]}


def _agent_pod() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "accelscope", "app.kubernetes.io/component": "agent"}
    return {
        "metadata": {"name": "agent", "namespace": "accelscope-system", "labels": labels},
        "spec": {"nodeName": NODE, "containers": [{"name": "agent"}]},
        "status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _serve(attack: str, port: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handler = type("Handler", (_HostileCluster,), {"attack": attack})
    server = _Server(("127.0.0.1", 0), handler)
    port.send(server.server_port)
    server.serve_forever()


@contextlib.contextmanager
def _hostile_cluster(attack: str) -> Iterator[int]:
    """Its port. A process of its own: to make such answers takes CPU time, which is not the fleet's."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(attack, there), daemon=True)
    process.start()
    try:
        if not here.poll(_PATIENCE_SECONDS):
            raise RuntimeError("the hostile cluster does not start")
        yield here.recv()
    finally:
        process.terminate()
        process.join()


@dataclass(frozen=True, slots=True)
class Result:
    """`rss_bytes` after each refresh of the hostile cluster."""

    attack: str
    rss_bytes: list[int]
    peak_bytes: int
    answer_seconds: list[float]  # of the API, to questions about the good clusters
    good_ages: list[float]  # of the oldest reading of a good node, at each look
    good_fresh: bool  # at each look, all nodes of the good clusters were
    reason: str | None  # of the hostile node, at the end

    def findings(self) -> Iterator[tuple[str, str, bool]]:
        """What, measured, whether it is as it should be."""
        warm = self.rss_bytes[int(_WARM_UP * len(self.rss_bytes)) :]
        half = len(warm) // 2
        # The least of each half: an answer that is being read at that moment does not stay.
        growth = min(warm[half:]) - min(warm[:half])
        shown = f"{growth / 2**20:+.1f} MiB between the halves after the warm-up"
        yield "growth", shown, growth <= _GROWTH_BYTES
        ceiling = f"{mib(self.peak_bytes)} MiB at most, of {CEILING_BYTES >> 20} allowed"
        yield "ceiling", ceiling, self.peak_bytes <= CEILING_BYTES
        slowest = percentile(self.answer_seconds, 0.99)
        shown = f"p50 {ms(percentile(self.answer_seconds, 0.5))} ms, p99 {ms(slowest)} ms"
        yield "answers", f"{shown}, {len(self.answer_seconds)} asked", slowest <= _SLOWEST_SECONDS
        shown = f"readings at most {max(self.good_ages):.1f} s old"
        yield "others", f"{'all fresh' if self.good_fresh else 'NOT all fresh'}, {shown}", self.good_fresh
        expected = ATTACKS[self.attack][1]
        marked = self.reason is None if expected is None else expected in (self.reason or "")
        yield "reason", str(self.reason), marked

    def table(self) -> Table:
        table = Table(f"Hostile agent: {self.attack}", ("refreshes", "RSS MiB"))
        step = max(1, len(self.rss_bytes) // _ROWS)
        for place in [*range(0, len(self.rss_bytes), step), len(self.rss_bytes) - 1]:
            table.add(str(place + 1), mib(self.rss_bytes[place]))
        return table


class _Onlooker(threading.Thread):
    """Asks the API about the good clusters all the while."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.seconds: list[float] = []
        self.ages: list[float] = []
        self.fresh = True
        self.done = threading.Event()

    def run(self) -> None:
        api = Api(self._port)
        while not self.done.wait(_ASKED_EVERY_SECONDS):
            taken, page = api.ask("/api/v1/nodes?limit=100")
            good = [row for row in page["items"] if row["cluster"] != HOSTILE]
            self.seconds.append(taken)
            self.ages.append(max(row["age_seconds"] for row in good))
            self.fresh = self.fresh and all(row["state"] == "fresh" for row in good)
            self.seconds.append(api.ask("/api/v1/summary?group_by=cluster")[0])
        api.close()


def run(attack: str, refreshes: int, folder: Path) -> Result:
    """Raises RuntimeError where something does not start or does not answer."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "PYTHON"))}
    command = [AGENT, "simulate", "fleet", str(folder / "good"), "--clusters", str(_GOOD_CLUSTERS)]
    command += ["--nodes", str(_GOOD_NODES), "--interval", "1s"]
    with _hostile_cluster(attack) as port, running(Child("simulator", command, environment, folder)) as good:
        _wait_until((folder / "good" / "faults.yaml").exists, good)
        clusters = yaml.safe_load((folder / "good" / "clusters.yaml").read_text())["clusters"]
        url = f"http://127.0.0.1:{port}"
        clusters.append({"id": HOSTILE, "server": {"url": url}, "sources": {"agents": {}}})
        (folder / "clusters.yaml").write_text(json.dumps({"clusters": clusters}))
        listen = free_port()
        command = [AGENT, "fleet", "--clusters-file", str(folder / "clusters.yaml")]
        command += ["--listen-port", str(listen), "--refresh-interval", _REFRESH_INTERVAL]
        command += ["--requests-per-second", "100000", "--requests-burst", "100000", "--log-level", "error"]
        with running(Child("fleet", command, environment, folder)) as fleet:
            _wait_until(lambda: _fresh_nodes(listen) >= _GOOD_CLUSTERS * _GOOD_NODES, fleet)
            return _attacked(attack, refreshes, listen, fleet)


def _attacked(attack: str, refreshes: int, port: int, fleet: Child) -> Result:
    onlooker = _Onlooker(port)
    onlooker.start()
    api = Api(port)
    rss = []
    for _ in range(refreshes):
        api.ask(f"/api/v1/clusters/{HOSTILE}/refresh", "POST")
        rss.append(fleet.rss_bytes())
    onlooker.done.set()
    onlooker.join(_PATIENCE_SECONDS)
    [node] = api.ask(f"/api/v1/nodes?cluster={HOSTILE}")[1]["items"]
    api.close()
    return Result(
        attack=attack,
        rss_bytes=rss,
        peak_bytes=fleet.peak_bytes(),
        answer_seconds=onlooker.seconds,
        good_ages=onlooker.ages,
        good_fresh=onlooker.fresh,
        reason=node["reason"],
    )


def _fresh_nodes(port: int) -> int:
    try:
        with contextlib.closing(Api(port)) as api:
            return int(api.ask("/api/v1/nodes?state=fresh&limit=1")[1]["total"])
    except (OSError, RuntimeError, http.client.HTTPException):
        return 0


def _wait_until(condition: Callable[[], bool], child: Child) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        child.check()
        if time.monotonic() > end:
            raise RuntimeError(f"{child.name}: not ready after {_PATIENCE_SECONDS:g} s")
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soak.hostile_agent", description=__doc__)
    parser.add_argument("--refreshes", type=int, default=REFRESHES_AN_HOUR, help="default: an hour's")
    parser.add_argument("--attack", choices=[*ATTACKS], action="append", help="default: all")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    good = True
    for attack in options.attack or ATTACKS:
        with tempfile.TemporaryDirectory(prefix="accelscope-hostile-") as folder:
            result = run(attack, options.refreshes, Path(folder))
        print(f"{result.table().as_text()}\n")
        for what, measured, as_it_should_be in result.findings():
            good = good and as_it_should_be
            print(f"  {what:<8} {'ok   ' if as_it_should_be else 'WRONG'}  {measured}")
        print(flush=True)
    print(f"hostile agent: {'flat and bounded' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
