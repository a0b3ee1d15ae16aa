"""Agents as a store knows them: targets that it scrapes, each on a node, and how old what it has is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from accelscope.fleet.sources.pace import LoopShare
from accelscope.fleet.sources.plausible import TEXT_LIMIT, cut
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.promql import once, series
from accelscope.fleet.sources.prometheus.store import PromqlStore, Sample, each_sample
from accelscope.kube.errors import KubeError, Reason

TargetKey: TypeAlias = tuple[str, str]  # job, instance: what a store tells its targets apart by

TARGET_LABELS = ("job", "instance")
_FACTS = (families.BUILD_INFO, families.STARTED, families.COLLECTED)
MOST_TARGETS = 50_000  # of one cluster; a store that has more of them is not believed
_LONGEST_INTERVAL_SECONDS = 300.0  # stores look no further back for a current value


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    key: TargetKey
    node: str
    scraped_at: float  # by the store's clock
    collected_at: float | None = None  # by the node's; None: the store was not given our self-metrics
    started_at: float | None = None  # likewise
    version: str | None = None

    @property
    def reading(self) -> float:
        """Another for each page of the agent."""
        return self.scraped_at if self.collected_at is None else self.collected_at


@dataclass(frozen=True, slots=True)
class Targets:
    asked_at: float  # the moment of which all is told, by the store's clock
    targets: tuple[Target, ...]
    warnings: tuple[str, ...]


async def find_targets(store: PromqlStore, loop_share: LoopShare) -> Targets:
    """Raises KubeError. By the time of their last scrape, which an instant query tells only when it is asked
    for: the time that stands beside each value is that of the question."""
    times = " or ".join(
        once(f"timestamp({series((name,), *store.matchers)})", (*TARGET_LABELS, "node"))
        for name in (families.NODE_INFO, families.INFO)  # who keeps no self-metrics has the latter
    )
    scraped = await store.vector(times)
    if scraped.at is None:
        return Targets(0.0, (), scraped.warnings)
    labels = ("__name__", *TARGET_LABELS, "version")
    facts = await store.vector(once(series(_FACTS, *store.matchers), labels), at=scraped.at)
    found: dict[TargetKey, Target] = {}

    def add(sample: Sample) -> None:
        key, node, at = target_key(sample.metric), sample.metric.get("node"), sample.number
        if not node or at is None or max(map(len, (node, *key))) > TEXT_LIMIT:
            return
        if key not in found and len(found) >= MOST_TARGETS:
            raise KubeError(Reason.TOO_LARGE, f"the store has series of more than {MOST_TARGETS} agents")
        if key not in found or found[key].scraped_at < at:
            found[key] = Target(key=key, node=node, scraped_at=at)

    def describe(sample: Sample) -> None:
        if (target := found.get(target_key(sample.metric))) is not None:
            found[target.key] = _told(target, sample)

    await each_sample(scraped, loop_share, add)
    await each_sample(facts, loop_share, describe)
    return Targets(scraped.at, tuple(found.values()), scraped.warnings + facts.warnings)


def target_key(labels: Mapping[str, str]) -> TargetKey:
    return labels.get("job", ""), labels.get("instance", "")


def _told(target: Target, sample: Sample) -> Target:
    match sample.metric.get("__name__"):
        case families.BUILD_INFO:
            return replace(target, version=cut(sample.metric.get("version", "")) or None)
        case families.STARTED:
            return replace(target, started_at=sample.number)
        case families.COLLECTED:
            return replace(target, collected_at=sample.number)
    return target


@dataclass(frozen=True, slots=True)
class _Remembered:
    reading: float
    scraped_at: float
    not_before: float  # by the store's clock: when the reading cannot have been taken yet
    interval_seconds: float | None


class Ages:
    """When readings were taken, by the store's clock, and how far they are apart.

    An agent tells when it made its page by its own clock. Where that is behind, readings would look older
    than they are; but a page that was not there yet at the scrape before cannot be older than that scrape.
    """

    def __init__(self) -> None:
        self._remembered: dict[TargetKey, _Remembered] = {}

    def look(self, targets: Iterable[Target]) -> None:
        """At all that there are."""
        before, self._remembered = self._remembered, {}
        for target in targets:
            last = before.get(target.key)
            not_before, interval = float("-inf"), None
            if last is not None and last.reading == target.reading:
                not_before, interval = last.not_before, last.interval_seconds
            elif last is not None:
                not_before = last.scraped_at
                interval = min(target.scraped_at - last.scraped_at, _LONGEST_INTERVAL_SECONDS)
            self._remembered[target.key] = _Remembered(
                target.reading, target.scraped_at, not_before, interval
            )

    def taken_at(self, target: Target) -> float:
        return max(min(target.reading, target.scraped_at), self._remembered[target.key].not_before)

    def interval_seconds(self, target: Target) -> float | None:
        """As far as was seen; None: there was only one reading yet."""
        return self._remembered[target.key].interval_seconds
