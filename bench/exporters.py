"""The agent beside other exporters, on several nodes: one table, with the ratios to the best of them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from accelscope.simulate import SimulatedNode
from bench.children import Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.forms import Forms, measure_forms
from bench.peers import OUT_OF_REACH, PEERS, Peer
from bench.quota import NoQuota, cpu_quota
from bench.scenes import Scene, scenes
from bench.tables import Table, mib, ms, times
from bench.turns import Exporter, take_turn

_SHOWS = b"accelerator_info{"
_UNCAPPED = {"max_process_series": "1000000"}
_COLUMNS = (
    "node",
    "exporter",
    "series",
    "RSS MiB",
    "CPU ms/collection",
    "CPU ms/scrape",
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
        try:
            measured[scene] = _play(workshop, scene)
        except NoQuota as error:
            unmeasured[scene] = str(error)
    forms_table, forms = measure_forms(workshop)
    usual = next(iter(measured.values()))
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
            for peer in PEERS
            if not workshop.missing(peer) and (peer.reads_devices or scene.yardsticks)
        ]
        for _ in range(workshop.effort.turns):
            for exporter in exporters:
                if not exporter.trouble:
                    take_turn(exporter, scene, workshop.effort)
    return exporters


def _agents(workshop: Workshop, scene: Scene, node: SimulatedNode, before: Sequence[str]) -> list[Exporter]:
    settings = {**node.agent_settings(), "collection_interval": f"{scene.interval_seconds}s"}

    def agent(name: str, settings: Mapping[str, str]) -> Exporter:
        return Exporter(
            name, lambda port: workshop.agent(name, port, settings, before=before), _SHOWS, ours=True
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


def _rss(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: turn.rss_bytes)


def _collection(exporter: Exporter) -> float | None:
    return None if exporter.on_scrape else exporter.typical(lambda turn: turn.collection_cpu)


def _scrape(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: turn.scrape_cpu)


def _fresh(share: float) -> _Figure:
    return lambda exporter: exporter.typical(lambda turn: turn.fresh_at(share))


def _kept(share: float) -> _Figure:
    def figure(exporter: Exporter) -> float | None:
        if not all(turn.kept for turn in exporter.turns):
            return None
        return exporter.typical(lambda turn: turn.kept_at(share))

    return figure


def _started(exporter: Exporter) -> float:
    return exporter.typical(lambda turn: turn.started)


_FIGURES: tuple[
    tuple[_Figure, Callable[[float], str], str], ...
] = (  # how it is written, what if there is none
    (_rss, mib, ""),
    (_collection, ms, "on scrape"),
    (_scrape, ms, ""),
    (_fresh(0.5), ms, ""),
    (_fresh(0.99), ms, ""),
    (_kept(0.5), ms, "closes"),
    (_kept(0.99), ms, "closes"),
    (_started, ms, ""),
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
    for peer in PEERS:
        if reason := workshop.missing(peer):
            table.add("any", peer.name, "", *blank, f"not obtained: {reason}")
    for name, reason in OUT_OF_REACH.items():
        table.add("any", name, "", *blank, f"cannot run: {reason}")
    effort = workshop.effort
    fewest = min(
        (len(turn.fresh) for exporters in measured.values() for each in exporters for turn in each.turns),
        default=0,
    )
    table.notes = (
        *(f"{scene.name}: {scene.told}; collections every {scene.interval_seconds} s." for scene in measured),
        f"Turns of each exporter on each node: {effort.turns}. In a turn it is started, left alone, scraped "
        f"on new connections and on a kept one ('closes': the server does not keep it), each at most "
        f"{effort.turn_scrapes} times or for {effort.turn_seconds:g} s, and ended. Figures are medians of "
        f"the turns. The slowest was scraped {fewest} times, and a p99 of so few is the slowest of them.",
        "Collections: CPU time from the beginning of one to that of a later one, while nobody scrapes. "
        "Those that read on scrape pay for it there. Scrapes: the median, which is without collections "
        "beside it; of those that read on scrape the mean. Start: to the first page that shows a device.",
        "Ratios: the agent's figure beside the best of those that read devices, in each column for itself: "
        "below 1 x the agent needs less. node_exporter reads the machine itself, and is a yardstick only. "
        "all-smi lists every process of the machine, and not only those on a device.",
    )
    return table


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
    rss, p99 = forms.with_pods.rss_bytes, forms.large.p99()
    slowest = _fresh(0.99)
    others = [slowest(each) for each in usual if each.turns and not each.ours]  # the yardstick too
    best = min((value for value in others if value is not None), default=None)
    beside = f"{times(p99 / best)} the best peer's" if best else "no peer to compare with"
    return {
        Contract.MEMORY: (
            f"{mib(rss)} MiB ({mib(forms.with_tls.rss_bytes)} without Kubernetes, "
            f"{mib(forms.plain.rss_bytes)} also without TLS)",
            rss <= 32 * 2**20,
            rss < 20 * 2**20,
        ),
        Contract.SCRAPE: (
            f"{ms(p99)} ms at {forms.large.series} series, {beside}; with TLS {ms(forms.with_tls.p99())} ms",
            p99 <= 0.003,
            best is not None and p99 <= best / 10,
        ),
    }
