"""The agent beside other exporters, on several nodes: one table, with the ratios to the best of them."""

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence

from accelscope.simulate import SimulatedNode
from bench.children import Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.forms import Forms, measure_forms
from bench.peers import OUT_OF_REACH, Peer
from bench.quota import NoQuota, cpu_quota
from bench.scenes import USUAL_NODE, Scene, scenes
from bench.scraper import percentile
from bench.tables import Table, mib, ms, times
from bench.turns import Exporter, take_turn

SHOWS_A_DEVICE = b"accelerator_info{"
_UNCAPPED = {"max_process_series": "1000000"}
_COLUMNS = (
    "node",
    "exporter",
    "series",
    "RSS MiB",
    "CPU ms/collection",
    "CPU ms/first scrape",
    "first p50 ms",
    "new p50 ms",
    "p99",
    "kept p50 ms",
    "p99",
    "start ms",
    "remark",
)
_Figure = Callable[[Exporter], float | None]  # None: there is no such figure


def compare(workshop: Workshop) -> Outcome:
    measured: dict[Scene, Sequence[Exporter]] = {}
    unmeasured: dict[Scene, str] = {}
    for scene in scenes(workshop.effort):
        if workshop.scenes and scene.name not in workshop.scenes:
            continue
        try:
            measured[scene] = _play(workshop, scene)
        except NoQuota as error:
            unmeasured[scene] = str(error)
    forms_table, forms = measure_forms(workshop)
    usual = next((exporters for scene, exporters in measured.items() if scene.name == USUAL_NODE), ())
    return Outcome([_table(workshop, measured, unmeasured), forms_table], _verdicts(forms, usual))


def _play(workshop: Workshop, scene: Scene) -> list[Exporter]:
    """The exporters take turns. Raises NoQuota."""
    with contextlib.ExitStack() as stage:
        before: tuple[str, ...] = ()
        if scene.millicpu is not None:
            before = stage.enter_context(cpu_quota(scene.millicpu))
        folder = workshop.folder / f"scene-{scene.name.replace(' ', '-')}"
        node = stage.enter_context(scene.node(folder))
        exporters = _agents(workshop, scene, node, before)
        exporters += [
            _peer(workshop, scene, node, peer, before)
            for peer in workshop.peers
            if not workshop.missing(peer) and (peer.reads_devices or scene.yardsticks)
        ]
        for _ in range(workshop.effort.turns_with(scene.interval_seconds)):
            for exporter in exporters:
                if not exporter.trouble:
                    take_turn(exporter, scene, workshop.effort)
    return exporters


def _agents(workshop: Workshop, scene: Scene, node: SimulatedNode, before: Sequence[str]) -> list[Exporter]:
    settings = {**node.agent_settings(), "collection_interval": f"{scene.interval_seconds}s"}

    def agent(name: str, settings: Mapping[str, str]) -> Exporter:
        return Exporter(
            name, lambda port: workshop.agent(name, port, settings, before=before), SHOWS_A_DEVICE, ours=True
        )

    agents = [agent("agent", settings)]
    if scene.uncapped:
        agents.append(agent("agent, no cap", {**settings, **_UNCAPPED}))
    return agents


def _peer(
    workshop: Workshop, scene: Scene, node: SimulatedNode, peer: Peer, before: Sequence[str]
) -> Exporter:
    return Exporter(
        peer.name,
        lambda port: workshop.peer(
            peer, port, node.folder, interval_seconds=scene.interval_seconds, before=before
        ),
        peer.shows,
        reads_devices=peer.reads_devices,
        on_scrape=peer.on_scrape,
    )


def rss(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: turn.rss_bytes)


def collection_cpu(exporter: Exporter) -> float | None:
    return None if exporter.on_scrape else exporter.typical(lambda turn: turn.collection_cpu)


def _first(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: statistics.median(turn.first))


def first_scrape_cpu(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: statistics.median(turn.first_cpu))


def _fresh(share: float) -> _Figure:
    return lambda exporter: exporter.typical(lambda turn: turn.fresh_at(share))


def _kept(share: float) -> _Figure:
    def figure(exporter: Exporter) -> float | None:
        if not all(turn.kept for turn in exporter.turns):
            return None
        return exporter.typical(lambda turn: turn.kept_at(share))

    return figure


def started(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: turn.started)


# How each is written, and what if there is none.
_FIGURES: tuple[tuple[_Figure, Callable[[float], str], str], ...] = (
    (rss, mib, ""),
    (collection_cpu, ms, "on scrape"),
    (first_scrape_cpu, ms, ""),
    (_first, ms, ""),
    (_fresh(0.5), ms, ""),
    (_fresh(0.99), ms, ""),
    (_kept(0.5), ms, "closes"),
    (_kept(0.99), ms, "closes"),
    (started, ms, ""),
)


def _table(
    workshop: Workshop, measured: Mapping[Scene, Sequence[Exporter]], unmeasured: Mapping[Scene, str]
) -> Table:
    table = Table("Exporters side by side", _COLUMNS, names=2)
    blank = [""] * len(_FIGURES)
    for scene, exporters in measured.items():
        for exporter in exporters:
            if exporter.turns:
                series = str(round(exporter.typical(lambda turn: turn.series)))
                table.add(scene.name, exporter.name, series, *_written(exporter), exporter.trouble)
            else:
                table.add(scene.name, exporter.name, "", *blank, exporter.trouble)
        for own in exporters:
            if own.ours and own.turns:
                name = f"{own.name} to the best peer"
                table.add(scene.name, name, "", *_ratios(own, _peers(exporters)), "")
    for scene, reason in unmeasured.items():
        table.add(scene.name, "all", "", *blank, f"not measured: {reason}")
    for peer in workshop.peers:
        if reason := workshop.missing(peer):
            table.add("any", peer.name, "", *blank, f"not obtained: {reason}")
    for name, reason in OUT_OF_REACH.items():
        table.add("any", name, "", *blank, f"not measured: {reason}")
    table.notes = _notes(workshop, measured)
    return table


def _notes(workshop: Workshop, measured: Mapping[Scene, Sequence[Exporter]]) -> tuple[str, ...]:
    effort = workshop.effort
    fewest = min(
        (len(turn.fresh) for exporters in measured.values() for each in exporters for turn in each.turns),
        default=0,
    )
    return (
        *(
            f"{scene.name}: {scene.told}; collections every {scene.interval_seconds} s, "
            f"turns of each exporter: {effort.turns_with(scene.interval_seconds)}."
            for scene in measured
        ),
        f"In a turn an exporter is started, left alone for {effort.turn_collections} collections and more, "
        f"scraped {effort.turn_first_scrapes} times with so long between that each meets a new page, then "
        f"for {effort.turn_intervals:g} intervals of collections by turns on new connections and on a kept "
        "one ('closes': the server does not keep it), and ended. These last follow one another at the same "
        "pace for all, every 20 ms where nothing else is said, so that each meets as many collections; one "
        "that takes longer gets the next at once. Figures are medians of the turns. The slowest was scraped "
        f"{fewest} times on new connections, and a p99 of so few is the slowest of them.",
        "Collections: CPU time from the beginning of one to that of a later one, while nobody scrapes. "
        "Those that read on scrape pay for it there. First scrape: the first of a new page, on a new "
        "connection, which is what a Prometheus meets that asks less often than is collected: the agent "
        "joins and compresses its page with the collection in formats that were scraped during the last "
        "minute, otherwise then, and sends the same bytes to whoever asks next. The scrape waits until "
        "no collection runs, because its CPU is that of the whole process meanwhile; medians. Start: to the "
        "first page that shows a device.",
        "RSS is of the exporter's own process: that of a tool which it runs, as all-smi does with nvidia-smi "
        "when it starts, comes on top while the tool runs. CPU time is with that of its tools.",
        "Ratios: the agent's figure beside the best of those that read devices, in each column for itself: "
        "below 1 x the agent needs less. node_exporter reads the machine itself, and is a yardstick only. "
        "all-smi lists every process of the machine, and not only those on a device.",
    )


def _written(exporter: Exporter) -> list[str]:
    cells = []
    for figure, written, otherwise in _FIGURES:
        value = figure(exporter)
        cells.append(otherwise if value is None else written(value))
    return cells


def _ratios(own: Exporter, peers: Sequence[Exporter]) -> list[str]:
    cells = []
    for figure, *_ in _FIGURES:
        value = figure(own)
        best = min((other for peer in peers if (other := figure(peer)) is not None), default=None)
        cells.append(times(value / best) if value is not None and best else "")
    return cells


def _peers(exporters: Sequence[Exporter]) -> list[Exporter]:
    return [each for each in exporters if each.turns and each.reads_devices and not each.ours]


def _verdicts(forms: Forms, usual: Sequence[Exporter]) -> dict[Contract, Verdict]:
    rss, p99 = forms.with_pods.rss_bytes, percentile(list(forms.first), 0.99)
    best = min((_first(each) for each in usual if each.turns and not each.ours), default=None)
    own = min((_first(each) for each in usual if each.ours), default=None)
    share = own / best if own is not None and best else None
    beside = "no peer to compare with" if share is None else f"median {times(share)} the best peer's"
    return {
        Contract.MEMORY: (
            f"{mib(rss)} MiB ({mib(forms.with_tls.rss_bytes)} without Kubernetes, "
            f"{mib(forms.plain.rss_bytes)} also without TLS)",
            rss <= 32 * 2**20,
            rss < 20 * 2**20,
        ),
        Contract.SCRAPE: (
            f"{ms(p99)} ms at {forms.large.series} series, {beside}; further ones of the same page "
            f"{ms(forms.large.p99())} ms, with TLS {ms(forms.with_tls.p99())} ms",
            p99 <= 0.003,
            share is not None and share <= 0.1,
        ),
    }
