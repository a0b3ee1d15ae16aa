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
            (lambda port: workshop.agent("without TLS", port, settings), Scraper),
            (
                lambda port: workshop.agent("TLS", port, {**settings, **tls}),
                lambda port: Scraper(port, tls=certificate.trust),
            ),
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
    table = Table("Start to first page", ("agent", "ms", "fastest", "slowest", "to that without TLS"))
    base = statistics.median(taken["without TLS"])
    for name, values in taken.items():
        middle = statistics.median(values)
        table.add(name, ms(middle), ms(min(values)), ms(max(values)), times(middle / base))
    slowest = statistics.median(taken["TLS"])
    table.notes = (
        f"Median of {workshop.effort.starts} starts, from before the process is made to the last byte of the "
        "first page, which holds a whole collection. Other exporters are in the table of exporters.",
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
