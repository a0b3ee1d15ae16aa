"""The agent and the agent of another checkout by turns on the same node: RSS and CPU, now and then."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from bench.certificate import self_signed
from bench.children import AGENT, Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.exporters import SHOWS_A_DEVICE, collection_cpu, first_scrape_cpu, rss, started
from bench.forms import PODS, cluster_with_pods
from bench.scenes import USUAL_NODE, scenes
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
_HOLDS = 1.1  # two runs of the same agent differ by a few per cent
Ratios = Mapping[str, float | None]  # by the figure: now to then


def compare_with_other(workshop: Workshop) -> Outcome:
    """`workshop.against` is the other checkout, with its own .venv."""
    if workshop.against is None:
        return Outcome([])
    programs = {"now": AGENT, "then": str(workshop.against / ".venv" / "bin" / "accelscope")}
    [scene] = [scene for scene in scenes(workshop.effort) if scene.name == USUAL_NODE]
    turns = workshop.effort.turns * workshop.effort.repeats
    table = Table(f"The agent beside that of {workshop.against}", ("node", "agent", *_FIGURES), names=2)
    ratios: list[Ratios] = []
    with contextlib.ExitStack() as stage:
        node = stage.enter_context(scene.node(workshop.folder / "against"))
        alone = {**node.agent_settings(), "collection_interval": f"{scene.interval_seconds}s"}
        cluster = cluster_with_pods(node, workshop.folder / "against-cluster", self_signed(workshop.folder))
        with_pods = {**alone, **stage.enter_context(cluster).agent_settings()}
        for form, settings in {"usual": alone, f"usual, {PODS} pods": with_pods}.items():
            agents = {name: _agent(workshop, name, program, settings) for name, program in programs.items()}
            # The first turn of each writes bytecode and is not counted.
            for turn in range(turns + 1):
                for agent in agents.values():
                    take_turn(agent, scene, workshop.effort)
                    if turn == 0:
                        agent.turns.clear()
            values = {
                name: [figure(agent) for figure, _ in _FIGURES.values()] for name, agent in agents.items()
            }
            for name, row in values.items():
                table.add(
                    form,
                    name,
                    *(show(value or 0.0) for value, (_, show) in zip(row, _FIGURES.values(), strict=True)),
                )
            pairs = zip(_FIGURES, values["now"], values["then"], strict=True)
            ratio = {figure: now / then if now and then else None for figure, now, then in pairs}
            ratios.append(ratio)
            table.add(form, "now to then", *("" if each is None else times(each) for each in ratio.values()))
    table.notes = (
        f"Medians of {turns} turns of each; {scene.told}. Below 1 x the agent needs less than then.",
    )
    return Outcome([table], verdicts_of(ratios))


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
