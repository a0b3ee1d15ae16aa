"""From the start of the process to its first page."""

import statistics
from collections.abc import Callable

from bench.certificate import self_signed
from bench.children import Child, Workshop, free_port, running
from bench.contracts import Contract, Outcome
from bench.nodes import usual_node
from bench.scraper import Scraper
from bench.tables import Table, ms, times


def start(workshop: Workshop) -> Outcome:
    certificate = self_signed(workshop.folder)
    tls = {"tls_certificate": str(certificate.file), "tls_key": str(certificate.key)}
    with usual_node(workshop.folder / "start") as node:
        settings = node.agent_settings()
        subjects: list[tuple[Callable[[int], Child], Callable[[int], Scraper]]] = [
            (lambda port: workshop.agent("agent", port, settings), Scraper),
            (
                lambda port: workshop.agent("agent, TLS", port, {**settings, **tls}),
                lambda port: Scraper(port, tls=certificate.trust),
            ),
            (lambda port: workshop.nvitop_exporter(port, node.folder, interval_seconds=1.0), Scraper),
            (workshop.node_exporter, Scraper),
        ]
        taken: dict[str, list[float]] = {}
        for number in range(workshop.effort.starts + 1):
            for make, reach in subjects:
                port = free_port()
                scraper = reach(port)
                child = make(port)
                with running(child):
                    seconds = child.wait_for_page(scraper)
                if number:  # the first start compiles the bytecode and fills the machine's caches
                    taken.setdefault(child.name, []).append(seconds)
    table = Table("Start to first page", ("exporter", "ms", "fastest", "slowest", "to the agent's"))
    base = statistics.median(taken["agent"])
    for name, values in taken.items():
        middle = statistics.median(values)
        table.add(name, ms(middle), ms(min(values)), ms(max(values)), times(middle / base))
    slowest = statistics.median(taken["agent, TLS"])
    table.notes = (
        f"Median of {workshop.effort.starts} starts, from before the process is made to the last byte of the "
        "first page. The agent's first page holds a whole collection.",
    )
    return Outcome(
        [table],
        {
            Contract.START: (
                f"{ms(base)} ms, with TLS {ms(slowest)} ms",
                max(base, slowest) <= 1,
                max(base, slowest) <= 0.3,
            )
        },
    )
