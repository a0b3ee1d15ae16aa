"""Whether it grew, or lost sight of something."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.tables import Table, mib

from tools.soak.agent import Sample
from tools.soak.length import PODS_AT_ONCE, PROCESSES_AT_ONCE, Length

_WARM_UP = 0.25  # of the run: caches fill, the allocator finds its size
# Three quarters of what the chart limits an agent to. The 32 MiB of the contract are of a sixth of the
# processes, on one vendor's devices.
_MOST_RSS_BYTES = 48 << 20
# By what the usual and the highest value may differ by chance; one for each pod would be thousands.
_USUAL_FACTOR, _USUAL_MORE = 1.1, 2
_BOUND_FACTOR, _BOUND_MORE = 1.25, 8
_BOUNDED = ("threads", "files", "series", "processes", "pods")
# Whatever it saw before: the node has them.
_THERE = {"processes": PROCESSES_AT_ONCE, "pods": PODS_AT_ONCE}
_NO_SCRAPES = ("reconnected", "failed")  # of the scrapes' counts


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    measured: str
    good: bool


def table(samples: Sequence[Sample], length: Length) -> Table:
    result = Table(
        "Soak",
        ("part of the day", "RSS MiB", "highest", *_BOUNDED),
        notes=("RSS is the median of the part's samples; the rest is the highest of each part.",),
    )
    for number, part in enumerate(_periods(samples, length)):
        highest = [str(max(getattr(sample, name) for sample in part)) for name in _BOUNDED]
        rss = [sample.rss_bytes for sample in part]
        result.add(f"{number + 1}/{length.periods}", mib(statistics.median(rss)), mib(max(rss)), *highest)
    return result


def findings(samples: Sequence[Sample], length: Length) -> list[Finding]:
    first = max(1, round(_WARM_UP * length.periods))
    warm = [statistics.median(s.rss_bytes for s in part) for part in _periods(samples, length)[first:]]
    growth, most = slope(warm) * length.periods, max(warm)
    found = [
        Finding(
            "RSS",
            f"{growth / 2**20:+.2f} MiB over the whole, by the slope after the first quarter; "
            f"{most / 2**20:.1f} MiB at most, of {_MOST_RSS_BYTES >> 20} allowed",
            growth <= length.rss_tolerance_bytes and most <= _MOST_RSS_BYTES,
        )
    ]
    half, quarter = len(samples) // 2, len(samples) // 4
    for name in _BOUNDED:
        values: list[int] = [getattr(sample, name) for sample in samples]
        highest, later = max(values[:half]), max(values[half:])
        usual, last = statistics.median(values[quarter:half]), statistics.median(values[-quarter:])
        expected = max(usual, _THERE.get(name, 0))
        factor = length.series_factor if name == "series" else _USUAL_FACTOR
        grown = later > highest * _BOUND_FACTOR + _BOUND_MORE or last > expected * factor + _USUAL_MORE
        # A trouble hides for some steps what comes back afterwards: only what stays away is lost.
        lost = max(values[-round(length.last_share * len(values)) :]) < expected / factor - _USUAL_MORE
        told = f"{usual:g} in the second quarter, {last:g} in the last; at most {max(highest, later)}"
        found.append(Finding(name, told, not (grown or lost)))
    return found


def answered(counts: Mapping[str, int], asked: int) -> Finding:
    """Of the scrapes: one that nobody finished is no answer."""
    done = sum(count for name, count in counts.items() if name not in _NO_SCRAPES)
    return Finding("scrapes", f"{done} of {asked} done", done == asked)


def slope(values: Sequence[float]) -> float:
    """Of the line through them that fits best, by their place."""
    return statistics.linear_regression(range(len(values)), values).slope


def _periods(samples: Sequence[Sample], length: Length) -> list[Sequence[Sample]]:
    cuts = [round(number * len(samples) / length.periods) for number in range(length.periods + 1)]
    return [samples[cuts[number] : cuts[number + 1]] for number in range(length.periods)]
