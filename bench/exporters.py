"""The agent beside other exporters: memory, scrapes, bytes."""

import gzip
import ssl
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.children import Child, Workshop, free_port, running
from bench.contracts import Contract, Outcome
from bench.nodes import CALL_COST_MICROSECONDS, settings_of, usual_node
from bench.scraper import Scraper, ScrapeFailed, percentile
from bench.tables import Table, mib, ms, times

_SETTLE_SECONDS = 1.5  # for a collection that was due while the process was paused
_IDLE_SECONDS = 5.0
_FIRST_SCRAPE_INTERVAL = "0.3s"


@dataclass(slots=True)
class Subject:
    child: Child
    port: int
    tls: ssl.SSLContext | None = None
    fresh: list[float] = field(default_factory=list)  # seconds of scrapes on a new connection
    kept: list[float] = field(default_factory=list)  # on a kept connection
    idle_cpu: float = 0.0  # CPU seconds per second without scrapes
    scrape_cpu: float = 0.0  # CPU seconds of all scrapes on new connections, without what idling costs

    def scraper(self, *, compressed: bool = True) -> Scraper:
        return Scraper(self.port, tls=self.tls, compressed=compressed)


def compare(workshop: Workshop) -> Outcome:
    certificate, key, trust = _certificate(workshop.folder)
    tls = {"tls_certificate": str(certificate), "tls_key": str(key)}
    with usual_node(workshop.folder / "usual") as node:
        settings = settings_of(node)
        ports = [free_port() for _ in range(5)]
        every_second = {**settings, "collection_interval": "1s"}
        subjects = [
            Subject(workshop.agent("agent", ports[0], settings), ports[0]),
            Subject(workshop.agent("agent, TLS", ports[1], {**settings, **tls}), ports[1], tls=trust),
            Subject(workshop.agent("agent, every 1 s", ports[2], every_second), ports[2]),
            Subject(workshop.nvitop_exporter(ports[3], node.folder, interval_seconds=1.0), ports[3]),
            Subject(workshop.node_exporter(ports[4]), ports[4]),
        ]
        with running(*(subject.child for subject in subjects)):
            for subject in subjects:
                subject.child.wait_for_page(subject.scraper())
            _measure(subjects, workshop)
            table, page_series = _table(subjects)
        first = _first_scrapes(workshop, settings)
    agent, with_tls = subjects[0], subjects[1]
    peer = min(percentile(subject.fresh, 0.99) for subject in subjects[3:])
    p99 = percentile(agent.fresh, 0.99)
    table.notes = (
        f"Same simulated node for all that read one: 8 H100, 4 processes each, every driver call burns "
        f"{CALL_COST_MICROSECONDS} us CPU. {len(agent.fresh)} scrapes on new connections and {len(agent.kept)} on a "
        "kept one, gzip; the others are paused meanwhile. node_exporter reads the machine, not the node.",
        "Scrape times p50/p99. CPU per scrape is without what the process uses when nobody scrapes (idle CPU). "
        "The agent collects every 10 s (its default), nvitop-exporter every 1 s (its default).",
        f"Agent, first scrape of a new page (it is compressed then): p50 {ms(statistics.median(first))} ms, "
        f"p99 {ms(percentile(first, 0.99))} ms over {len(first)} pages.",
    )
    rss = with_tls.child_rss
    return Outcome(
        [table],
        {
            Contract.MEMORY: (f"{mib(rss)} MiB", rss <= 32 * 2**20, rss < 20 * 2**20),
            Contract.SCRAPE: (
                f"{ms(p99)} ms at {page_series} series, {times(p99 / peer)} of the best peer",
                p99 <= 0.003,
                p99 <= peer / 10,
            ),
        },
    )
