"""What the soak calls growth, on samples that are made up."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tools.soak.agent import Sample
from tools.soak.churn import ChurningNode
from tools.soak.length import DAY, Length
from tools.soak.verdict import answered, findings, slope, table

LENGTH = Length(steps=240, periods=24, rss_tolerance_bytes=1 << 20)
USUAL = Sample(rss_bytes=38 << 20, threads=10, files=16, series=1700, processes=200, pods=20)
MIB = 1 << 20


def grown(**per_step: float) -> list[Sample]:
    return [
        replace(USUAL, **{name: int(getattr(USUAL, name) + each * step) for name, each in per_step.items()})
        for step in range(LENGTH.steps)
    ]


def wrong(samples: list[Sample]) -> set[str]:
    return {finding.what for finding in findings(samples, LENGTH) if not finding.good}


def test_what_stays_as_it_was_is_flat() -> None:
    assert wrong(grown()) == set()


@pytest.mark.parametrize(
    ("name", "per_step", "called"),
    [
        ("rss_bytes", 2 * MIB / LENGTH.steps, "RSS"),
        ("threads", 0.1, "threads"),
        ("files", 0.1, "files"),
        ("series", 10, "series"),
        ("series", 0.4, "series"),
        ("processes", 10, "processes"),
        ("pods", 1, "pods"),
    ],
)
def test_what_grows_is_named(name: str, per_step: float, called: str) -> None:
    assert wrong(grown(**{name: per_step})) == {called}


@pytest.mark.parametrize(
    ("name", "left"),
    [("threads", 4), ("files", 6), ("series", 1650), ("series", 60), ("processes", 0), ("pods", 0)],
)
def test_what_is_lost_on_the_way_is_named(name: str, left: int) -> None:
    samples = grown()
    late = LENGTH.steps * 2 // 3
    samples[late:] = [replace(sample, **{name: left}) for sample in samples[late:]]
    assert wrong(samples) == {name}


@pytest.mark.parametrize("name", ["processes", "pods"])
def test_what_was_never_seen_is_named(name: str) -> None:
    assert wrong([replace(USUAL, **{name: 0})] * LENGTH.steps) == {name}


def test_much_memory_is_named_however_flat_it_is() -> None:
    assert wrong([replace(USUAL, rss_bytes=47 * MIB)] * LENGTH.steps) == set()
    assert wrong([replace(USUAL, rss_bytes=49 * MIB)] * LENGTH.steps) == {"RSS"}


@pytest.mark.parametrize(
    ("counts", "good"),
    [
        ({"kept": 90, "read slowly": 10}, True),
        ({"kept": 90, "read slowly": 10, "reconnected": 7}, True),
        ({"kept": 90, "read slowly": 9}, False),
        ({"kept": 99, "failed": 1}, False),
        ({}, False),
    ],
)
def test_every_scrape_that_was_asked_for_is_done(counts: dict[str, int], good: bool) -> None:
    assert answered(counts, 100).good is good


def test_memory_may_grow_while_it_warms_up_and_shrink_afterwards() -> None:
    warming = [replace(USUAL, rss_bytes=(20 + min(step, 50) // 3) * MIB) for step in range(LENGTH.steps)]
    assert wrong(warming) == set()
    assert wrong(grown(rss_bytes=-1000)) == set()


def test_one_sample_that_is_high_or_low_is_no_growth_and_no_loss() -> None:
    samples = grown()
    samples[-3] = replace(USUAL, rss_bytes=90 * MIB, threads=12, series=300, processes=20)
    assert wrong(samples) == set()


def test_slope_is_that_of_the_line() -> None:
    assert slope([3.0, 5.0, 7.0, 9.0]) == pytest.approx(2)


def test_each_part_of_the_day_has_a_row() -> None:
    rows = table(grown(threads=0.1), LENGTH).rows
    assert len(rows) == LENGTH.periods
    assert rows[0][:4] == ("1/24", "38.0", "38.0", "10")
    assert int(rows[-1][3]) == 33


def test_a_day_is_as_much_as_is_promised() -> None:
    assert (DAY.processes, DAY.pods, DAY.scrapes) == (100_000, 10_000, 100_000)


def test_pods_and_processes_come_and_go(tmp_path: Path) -> None:
    steps, looked_at = 10, 7  # two shifts, and into the second
    node = ChurningNode(tmp_path / "node", steps)
    assert len({pod.uid for pod in node.pods}) == steps * 10
    node.build()
    seen: list[set[str]] = []
    for step in range(looked_at):
        node.step(step)
        proc = node.folder / "proc"
        seen.append({entry.name for entry in proc.iterdir() if entry.name.isdigit()})
    assert [len(pids) for pids in seen] == [100, *[200] * (looked_at - 1)]
    assert all(len(before & after) == 100 for before, after in pairwise(seen))
    assert all(before.isdisjoint(after) for before, after in zip(seen, seen[2:], strict=False))
