"""The agent and the agent of another checkout by turns on the same node: RSS and CPU, now and then."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread

from accelscope.simulate import SimulatedNode, load_node
from bench.certificate import self_signed
from bench.children import AGENT, Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.exporters import SHOWS_A_DEVICE, collection_cpu, first_scrape_cpu, rss, started
from bench.forms import PODS, cluster_with_pods
from bench.scenes import USUAL_NODE, Scene, scenes
from bench.tables import Table, mib, ms, times
from bench.turns import Exporter, take_turn

_FIGURES: Mapping[str, tuple[Callable[[Exporter], float | None], Callable[[float], str]]] = {
    "RSS MiB": (rss, mib),
    "CPU ms/collection": (collection_cpu, ms),
    "CPU ms/first scrape": (first_scrape_cpu, ms),
    "start ms": (started, ms),
}
# The figures of each contract; the largest ratio of all nodes counts.
_CONTRACTS = {
    Contract.OTHER_RSS: ("RSS MiB",),
    Contract.OTHER_CPU: ("CPU ms/collection", "CPU ms/first scrape"),
}
# Nodes of vendors that are read from files, with their tools and without. Each tool costs what the node's
# description states.
_NODES_OF_FILES = ("amd-mi300x8", "amd-mi250", "amd-radeon", "furiosa-rngd", "furiosa-warboy")
_NO_TOOLS = dict.fromkeys(
    ("amd_smi_path", "rocm_smi_path", "furiosa_smi_path", "furiosactl_path"), "/no/such"
)
_HOLDS = 1.1  # two runs of the same agent differ by a few per cent
Ratios = Mapping[str, float | None]  # by the figure: now to then


def compare_with_other(workshop: Workshop) -> Outcome:
    """`workshop.against` is the other checkout, with its own .venv."""
    if workshop.against is None:
        return Outcome([])
    [scene] = [scene for scene in scenes(workshop.effort) if scene.name == USUAL_NODE]
    turns = workshop.effort.turns * workshop.effort.repeats
    table = Table(f"The agent beside that of {workshop.against}", ("node", "agent", *_FIGURES), names=2)
    table.notes = (
        f"Medians of {turns} turns of each; {scene.told}. Below 1 x the agent needs less than then. CPU "
        "is with that of tools. The nodes of other vendors move, as drivers do.",
    )
    ratios: list[Ratios] = []
    with contextlib.ExitStack() as stage:
        node = stage.enter_context(scene.node(workshop.folder / "against"))
        alone = _settings(node, scene)
        cluster = cluster_with_pods(node, workshop.folder / "against-cluster", self_signed(workshop.folder))
        with_pods = {**alone, **stage.enter_context(cluster).agent_settings()}
        for form, settings in {"usual": alone, f"usual, {PODS} pods": with_pods}.items():
            ratios.append(_compare(workshop, scene, table, form, settings))
    for kind in _NODES_OF_FILES:
        with _moving_node(kind, workshop.folder / kind) as node:
            with_tools = _settings(node, scene)
            without = {name: path for name, path in _NO_TOOLS.items() if name in with_tools}
            ratios.append(_compare(workshop, scene, table, kind, with_tools))
            if without:
                form = f"{kind}, no tools"
                ratios.append(_compare(workshop, scene, table, form, with_tools | without))
    return Outcome([table], verdicts_of(ratios))


def _settings(node: SimulatedNode, scene: Scene) -> dict[str, str]:
    return {**node.agent_settings(), "collection_interval": f"{scene.interval_seconds}s"}


@contextlib.contextmanager
def _moving_node(kind: str, folder: Path) -> Iterator[SimulatedNode]:
    node = SimulatedNode(load_node(kind), folder)
    node.build()
    stop = Event()
    moving = Thread(target=node.run, args=(stop,), daemon=True)
    moving.start()
    try:
        yield node
    finally:
        stop.set()
        moving.join()


def _compare(
    workshop: Workshop, scene: Scene, table: Table, form: str, settings: Mapping[str, str]
) -> Ratios:
    """Adds the rows of both agents and of their ratio."""
    assert workshop.against is not None
    programs = {"now": AGENT, "then": str(workshop.against / ".venv/bin/accelscope")}
    agents = {name: _agent(workshop, name, program, settings) for name, program in programs.items()}
    # The first turn of each writes bytecode and is not counted.
    for turn in range(workshop.effort.turns * workshop.effort.repeats + 1):
        for agent in agents.values():
            take_turn(agent, scene, workshop.effort)
            if turn == 0:
                agent.turns.clear()
    values = {name: [figure(agent) for figure, _ in _FIGURES.values()] for name, agent in agents.items()}
    for name, row in values.items():
        shown = zip(row, _FIGURES.values(), strict=True)
        table.add(form, name, *(show(value or 0.0) for value, (_, show) in shown))
    pairs = zip(_FIGURES, values["now"], values["then"], strict=True)
    ratio = {figure: now / then if now and then else None for figure, now, then in pairs}
    table.add(form, "now to then", *("" if each is None else times(each) for each in ratio.values()))
    return ratio


def verdicts_of(ratios: Sequence[Ratios]) -> dict[Contract, Verdict]:
    verdicts = {}
    for contract, figures in _CONTRACTS.items():
        measured = [ratio[figure] for ratio in ratios for figure in figures]
        worst = max((each for each in measured if each is not None), default=None)
        if worst is not None:
            verdicts[contract] = (times(worst), worst <= _HOLDS, worst <= 1)
    return verdicts


def _agent(workshop: Workshop, name: str, program: str, settings: Mapping[str, str]) -> Exporter:
    return Exporter(
        name,
        lambda port: workshop.agent(name, port, settings, program=program),
        SHOWS_A_DEVICE,
        ours=True,
    )
