"""`python -m tools.soak [--short]`: ends with 1 where the agent grew, went blind or failed."""

import argparse
import json
import select
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.certificate import self_signed
from bench.children import free_port

from accelscope.simulate.kubernetes import SimulatedCluster
from tools.soak.agent import Agent, Sample, SoakFailed, running_agent
from tools.soak.churn import ChurningNode
from tools.soak.length import DAY, SCRAPES_PER_STEP, SHORT, Length
from tools.soak.scrapes import MADE
from tools.soak.troubles import Troubles, place_certificate, settings_text
from tools.soak.verdict import answered, findings, table

_BYSTANDERS = 50  # pods that use no device
_COLLECTIONS_PER_STEP = 1
_SCRAPES_PATIENCE_SECONDS = 600
_TOLD_STEPS = 50
# A node is a million small files in a day: on a disk that is what would be measured.
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Scraped:
    counts: Counter[str]
    failures: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak",
        description="A day's churn on a running agent, compressed: do memory, threads, files or series grow?",
    )
    parser.add_argument("--short", action="store_true", help="a minute or two: finds only what grows fast")
    length = SHORT if parser.parse_args().short else DAY
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    print(f"soak: {length.processes} processes in {length.pods} pods, {length.scrapes} scrapes", flush=True)
    started = time.perf_counter()
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="accelscope-soak-", dir=place) as folder:
        try:
            samples, troubles, scraped = _run(Path(folder), length)
        except SoakFailed as error:
            print(f"soak: {error}", file=sys.stderr)
            return 1
    print(f"\n{table(samples, length).as_text()}\n")
    print(_listed("Happened", troubles))
    print(_listed("Scrapes", scraped.counts))
    good = not scraped.failures
    for failure in scraped.failures:
        print(f"  a scrape failed: {failure}")
    for finding in (*findings(samples, length), answered(scraped.counts, length.scrapes)):
        good = good and finding.good
        print(f"  {finding.what:<10} {'ok   ' if finding.good else 'WRONG'}  {finding.measured}")
    print(f"soak: {'flat and bounded' if good else 'FAILED'}, in {time.perf_counter() - started:.0f} s")
    return 0 if good else 1


def _run(folder: Path, length: Length) -> tuple[list[Sample], Counter[str], Scraped]:
    folders = [folder / name for name in ("first", "second")]
    for path in folders:
        path.mkdir()
    first, second = map(self_signed, folders)
    both = folder / "both.pem"
    both.write_bytes(first.file.read_bytes() + second.file.read_bytes())
    certificate, key = folder / "served.pem", folder / "served.key"
    place_certificate(first, certificate, key)
    config = folder / "agent.yaml"
    config.write_text(settings_text(0))
    features = folder / "features.d"
    features.mkdir()
    port = free_port()
    node = ChurningNode(folder / "node", length.steps)
    node.build()
    with ExitStack() as stack:
        cluster = stack.enter_context(SimulatedCluster(node, folder / "kubernetes", extra_pods=_BYSTANDERS))
        settings = {
            **node.agent_settings(),
            **cluster.agent_settings(),
            "config_file": str(config),
            "tls_certificate": str(certificate),
            "tls_key": str(key),
            "device_timeout": "1s",
            "tool_interval": "1s",
            "feature_labels": "nfd",
            "feature_file_folder": str(features),
            "log_format": "json",
        }
        trust = ssl.create_default_context(cafile=str(both))
        agent = stack.enter_context(running_agent(settings, port, trust, folder))
        scrapes = subprocess.Popen(
            [sys.executable, "-m", "tools.soak.scrapes", str(port), str(both)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(scrapes.kill)
        troubles = Troubles(node, cluster, config, (first, second), certificate, key)
        samples = _steps(agent, node, troubles, scrapes, length)
        if not any(features.iterdir()):
            raise SoakFailed("no feature file was written")
        printed, _ = scrapes.communicate(timeout=_SCRAPES_PATIENCE_SECONDS)
        if scrapes.returncode:
            raise SoakFailed(f"the scraping process ended with {scrapes.returncode}")
    document = json.loads(printed)
    return samples, troubles.done, Scraped(Counter(document["counts"]), document["failures"])


def _steps(
    agent: Agent, node: ChurningNode, troubles: Troubles, scrapes: "subprocess.Popen[str]", length: Length
) -> list[Sample]:
    samples = []
    started = time.perf_counter()
    for step in range(length.steps):
        troubles.before(step)
        node.step(step)
        assert scrapes.stdin is not None
        scrapes.stdin.write(f"{SCRAPES_PER_STEP}\n")
        scrapes.stdin.flush()
        agent.wait_for_collections(_COLLECTIONS_PER_STEP)
        _wait_for_scrapes(scrapes)
        samples.append(agent.sample())
        if (step + 1) % _TOLD_STEPS == 0:
            seconds = time.perf_counter() - started
            print(f"soak: step {step + 1} of {length.steps} after {seconds:.0f} s", flush=True)
    return samples


def _wait_for_scrapes(scrapes: "subprocess.Popen[str]") -> None:
    """Else they would pile up, and the last of them be made when nobody looks any more."""
    assert scrapes.stdout is not None
    ready, _, _ = select.select([scrapes.stdout], [], [], _SCRAPES_PATIENCE_SECONDS)
    if not ready:
        raise SoakFailed(f"the scrapes of a step took more than {_SCRAPES_PATIENCE_SECONDS} s")
    if scrapes.stdout.readline().strip() != MADE:
        raise SoakFailed(f"the scraping process ended with {scrapes.wait()}")


def _listed(title: str, counts: Counter[str]) -> str:
    return f"{title}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}"


if __name__ == "__main__":
    sys.exit(main())
