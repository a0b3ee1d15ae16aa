"""What an exporter does while nobody scrapes it, told from its CPU clock alone: asking costs it CPU."""

import itertools
import time
from collections.abc import Sequence

from bench.children import Child

_SAMPLE_SECONDS = 0.02
_ACTIVE_SHARE = 0.05  # of the busiest sample's CPU time, from which on a sample belongs to a collection
_QUIET_SHARE = 1 / 3  # of the interval, after which what follows is another collection
_BUSY_SHARE = 0.2  # of a core; less is no collection
_REST_SECONDS = 0.12  # more than a quota of CPU time makes one wait in the middle of a collection


def watch(child: Child, interval_seconds: float, collections: int) -> float:
    """CPU seconds per collection, over about so many: from the beginning of one to that of a later one."""
    samples = [(time.perf_counter(), child.cpu_seconds())]
    ends = samples[0][0] + (collections + 1.5) * interval_seconds
    while samples[-1][0] < ends:
        time.sleep(_SAMPLE_SECONDS)
        samples.append((time.perf_counter(), child.cpu_seconds()))
    begun = beginnings(samples, _QUIET_SHARE * interval_seconds)
    if len(begun) < 2:  # without a quiet moment: it needs all of the interval, or does nothing
        (first, least), (last, most) = samples[0], samples[-1]
        return (most - least) / (last - first) * interval_seconds
    return (begun[-1] - begun[0]) / (len(begun) - 1)


def wait_for_rest(child: Child, longest_seconds: float) -> None:
    """Until it works at nothing, so that no collection is measured along; one that never rests is not waited
    for longer than this."""
    at, cpu = time.perf_counter(), child.cpu_seconds()
    ends, worked_at = at + longest_seconds, at
    while at - worked_at < _REST_SECONDS and at < ends:
        time.sleep(_SAMPLE_SECONDS / 2)
        before, used = at, cpu
        at, cpu = time.perf_counter(), child.cpu_seconds()
        if cpu - used > _BUSY_SHARE * (at - before):
            worked_at = at


def beginnings(samples: Sequence[tuple[float, float]], quiet_seconds: float) -> list[float]:
    """The CPU clock at the beginning of each burst of work that follows such a quiet time. Samples are time
    and CPU clock."""
    steps = [(at, cpu, then - cpu) for (at, cpu), (_, then) in itertools.pairwise(samples)]
    active = _ACTIVE_SHARE * max((used for *_, used in steps), default=0.0)
    begun: list[float] = []
    worked_at = samples[0][0]  # what goes on when the watch begins may have begun earlier
    for at, cpu, used in steps:
        if used > active:
            if at - worked_at > quiet_seconds:
                begun.append(cpu)
            worked_at = at
    return begun
