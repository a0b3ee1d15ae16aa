"""The agent in the forms it is run in: with and without TLS, pods, more processes."""

import gzip
import ssl
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from accelscope.serve import Tls
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from bench.certificate import SelfSigned, self_signed
from bench.children import Child, Workshop, free_port, running
from bench.idling import wait_for_rest
from bench.nodes import CALL_COST_MICROSECONDS, DEVICES, make_node, usual_node, with_processes
from bench.scraper import Scraper, percentile, series_of
from bench.tables import Table, mib, ms, times
from bench.turns import NEW_PAGE_INTERVALS

_SETTLE_SECONDS = 1.2  # for a collection that was due while the process was paused
_NEW_PAGE_SECONDS = 0.3  # the interval of the agent whose pages are scraped once each
PODS = 110  # as many as a kubelet runs by default
_POD_BYTES = 20_000
_MANY_PROCESSES = 128  # which makes a page of about 1,700 series


@dataclass(slots=True)
class Subject:
    """An agent, and what was measured of it. Times in seconds."""

    child: Child
    port: int
    tls: ssl.SSLContext | None = None
    fresh: list[list[float]] = field(default_factory=list)  # scrapes on a new connection, by round
    kept: list[list[float]] = field(default_factory=list)  # scrapes on a kept connection, by round
    idle_cpu: float = 0.0  # CPU per second without scrapes
    scrape_cpu: float = 0.0  # CPU of all scrapes on new connections, without that
    rss_bytes: int = 0
    private_bytes: int = 0
    plain_bytes: int = 0
    gzip_bytes: int = 0
    series: int = 0

    def scraper(self, *, compressed: bool = True) -> Scraper:
        return Scraper(self.port, tls=self.tls, compressed=compressed)

    def p50(self) -> float:
        return typical(self.fresh, 0.5)

    def p99(self) -> float:
        return typical(self.fresh, 0.99)


@dataclass(frozen=True, slots=True)
class Forms:
    """What was measured of those that contracts are about."""

    plain: Subject
    with_tls: Subject
    with_pods: Subject  # and TLS
    large: Subject  # with a large page
    first: Sequence[float]  # scrapes of a large page, each the first of a new one; seconds


def measure_forms(workshop: Workshop) -> tuple[Table, Forms]:
    certificate = self_signed(workshop.folder)
    with usual_node(workshop.folder / "usual") as node, ExitStack() as started:
        settings = node.agent_settings()
        tls = {"tls_certificate": str(certificate.file), "tls_key": str(certificate.key)}
        cluster = started.enter_context(cluster_with_pods(node, workshop.folder / "cluster", certificate))
        large = make_node(workshop.folder / "large", with_processes(DEVICES, _MANY_PROCESSES, shape="steady"))

        def agent_with(
            name: str, settings: Mapping[str, str], trust: ssl.SSLContext | None = None
        ) -> Subject:
            port = free_port()
            return Subject(started.enter_context(running(workshop.agent(name, port, settings))), port, trust)

        plain = agent_with("HTTP", settings)
        with_tls = agent_with("TLS", {**settings, **tls}, certificate.trust)
        with_pods = agent_with(
            f"TLS, {PODS} pods", {**settings, **tls, **cluster.agent_settings()}, certificate.trust
        )
        often = agent_with("every 1 s", {**settings, "collection_interval": "1s"})
        with_large_page = agent_with(f"{_MANY_PROCESSES} processes", large.agent_settings())
        subjects = [plain, with_tls, with_pods, often, with_large_page]
        _measure(subjects, workshop)
        started.close()
        first = _first_scrapes(workshop, large.agent_settings())
    return _table(subjects, first), Forms(plain, with_tls, with_pods, with_large_page, first)


def cluster_with_pods(node: SimulatedNode, folder: Path, certificate: SelfSigned) -> SimulatedCluster:
    """One pod on each device, and others that the node runs beside."""
    return SimulatedCluster(
        node,
        folder,
        tls=Tls(str(certificate.file), str(certificate.key)),
        ca_file=certificate.file,
        pod_bytes=_POD_BYTES,
        extra_pods=PODS - len(node.pods),
    )


def _measure(subjects: Sequence[Subject], workshop: Workshop) -> None:
    for subject in subjects:
        subject.child.wait_for_page(subject.scraper())
    time.sleep(_SETTLE_SECONDS)
    effort = workshop.effort
    before = [subject.child.cpu_seconds() for subject in subjects]
    time.sleep(effort.idle_seconds)
    for subject, cpu in zip(subjects, before, strict=True):
        subject.idle_cpu = (subject.child.cpu_seconds() - cpu) / effort.idle_seconds
        subject.child.pause()
    for _ in range(effort.rounds):
        for subject in subjects:
            subject.child.go_on()
            time.sleep(_SETTLE_SECONDS)
            _scrape(subject, effort.scrapes // effort.rounds)
            subject.child.pause()
    for subject in subjects:
        subject.child.go_on()
        subject.rss_bytes = subject.child.rss_bytes()
        subject.private_bytes = subject.child.private_bytes()
        plain = subject.scraper(compressed=False).scrape().body
        subject.plain_bytes = len(plain)
        subject.series = series_of(plain)
        compressed = subject.scraper().scrape().body
        gzip.decompress(compressed)  # that it is what was asked for
        subject.gzip_bytes = len(compressed)


def _scrape(subject: Subject, count: int) -> None:
    started, cpu = time.perf_counter(), subject.child.cpu_seconds()
    subject.fresh.append([subject.scraper().scrape().seconds for _ in range(count)])
    passed = time.perf_counter() - started
    subject.scrape_cpu += max(0.0, subject.child.cpu_seconds() - cpu - passed * subject.idle_cpu)
    with subject.scraper() as scraper:
        subject.kept.append([scraper.scrape().seconds for _ in range(count // 2)])


def typical(rounds: Sequence[list[float]], share: float) -> float:
    """The median of the rounds' percentiles: a moment in which the machine was busy is one round's."""
    return statistics.median(percentile(values, share) for values in rounds)


def _first_scrapes(workshop: Workshop, settings: Mapping[str, str]) -> list[float]:
    """Scrapes as Prometheus makes them: each finds a page that nobody has asked for yet. They are made
    between collections, which are so frequent here that more scrapes would meet one than in an ordinary
    run."""
    port = free_port()
    interval = {"collection_interval": f"{_NEW_PAGE_SECONDS:g}s"}
    child = workshop.agent("agent, new pages", port, {**settings, **interval})
    scraper = Scraper(port)
    times_taken: list[float] = []
    page = b""
    with running(child):
        child.wait_for_page(scraper)
        while len(times_taken) < workshop.effort.first_scrapes:
            time.sleep(NEW_PAGE_INTERVALS * _NEW_PAGE_SECONDS)
            wait_for_rest(child, _NEW_PAGE_SECONDS)
            answer = scraper.scrape()
            if answer.body != page:
                times_taken.append(answer.seconds)
            page = answer.body
    return times_taken


def _table(subjects: Sequence[Subject], first: Sequence[float]) -> Table:
    table = Table(
        "The agent's forms",
        (
            "agent",
            "series",
            "RSS MiB",
            "private MiB",
            "scrape ms p50",
            "p99",
            "kept p50",
            "p99",
            "p50 to HTTP's",
            "bytes",
            "gzip",
            "CPU ms/scrape",
            "idle CPU ms/s",
        ),
    )
    base = subjects[0].p50()
    for subject in subjects:
        table.add(
            subject.child.name,
            str(subject.series),
            mib(subject.rss_bytes),
            mib(subject.private_bytes),
            ms(subject.p50()),
            ms(subject.p99()),
            ms(typical(subject.kept, 0.5)),
            ms(typical(subject.kept, 0.99)),
            times(subject.p50() / base),
            str(subject.plain_bytes),
            str(subject.gzip_bytes),
            ms(subject.scrape_cpu / sum(map(len, subject.fresh))),
            ms(subject.idle_cpu),
        )
    agent = subjects[0]
    table.notes = (
        f"8 H100 with 4 processes each; every driver call burns {CALL_COST_MICROSECONDS} us of CPU.",
        f"{sum(map(len, agent.fresh))} scrapes on new connections, {sum(map(len, agent.kept))} on kept ones, "
        f"gzip, in {len(agent.fresh)} rounds, while the others are paused. Percentiles are the median of the "
        "rounds'. RSS is read afterwards.",
        f"With {PODS} pods: the agent watches pods of {_POD_BYTES // 1000} KB each at an API server, over "
        "TLS, and asks the kubelet's socket in every collection; each device is held by one of the pods.",
        "Collects every 10 s, the default, where nothing else is said. CPU per scrape is without what the "
        "process uses when nobody scrapes it. Nearly all of these scrapes are of a page that was sent "
        "before.",
        "The first scrape of a new page, as Prometheus meets it, comes after a pause: with "
        f"{_MANY_PROCESSES} processes p50 {ms(statistics.median(first))} ms, p99 "
        f"{ms(percentile(list(first), 0.99))} ms of {len(first)}.",
    )
    return table
