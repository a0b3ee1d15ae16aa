"""Matches the series of one name on two pages, although their labels may differ.

Series with equal labels belong together. For the others, labels are left out until exactly one series of each
page remains with the same rest: first descriptions such as the model or the host name, then pods, then the
position in the node, and at last the device's unique id.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from accelscope.compare.page import Labels, Metric, Series

_UNIQUE = re.compile(r"uuid|serial|vdie|pci|bus_id|bdf", re.IGNORECASE)
_POSITION = re.compile(r"gpu|gpu_id|gpu_index|id|npu|npuid|index|device|minor_number", re.IGNORECASE)
_WORKLOAD = re.compile(r"(?:exported_|kubernetes_)?(?:pod|namespace|container)(?:_\w+)?|job\w*|user|pid")


def identifies(label: str) -> bool:
    """Whether a label identifies a device beyond its node."""
    return _UNIQUE.search(label) is not None


def _rank(label: str) -> int:
    """The order in which labels are left out."""
    if identifies(label):
        return 3
    if _POSITION.fullmatch(label):
        return 2
    return 1 if _WORKLOAD.fullmatch(label) else 0


@dataclass(frozen=True, slots=True)
class Pair:
    old: Series
    new: Series
    same_device: bool  # False: a unique id differs, and none agrees
    identified: bool  # whether both have a unique id
    only: bool = True  # False: several series of one page have these labels

    def differences(self, labels: Iterable[str]) -> list[tuple[str, str, str]]:
        """Labels among these whose values differ, with both values."""
        old, new = dict(self.old.labels), dict(self.new.labels)
        found = ((name, old.get(name, ""), new.get(name, "")) for name in labels)
        return [each for each in found if each[1] != each[2]]


@dataclass(slots=True)
class Match:
    """The series of one name."""

    missing_labels: tuple[str, ...]  # in no series of the new page
    extra_labels: tuple[str, ...]
    common_labels: tuple[str, ...]
    renamed_labels: dict[str, str] = field(default_factory=dict)  # missing label -> further one, same values
    pairs: list[Pair] = field(default_factory=list)
    missing: list[Series] = field(default_factory=list)
    extra: list[Series] = field(default_factory=list)

    @property
    def different_devices(self) -> bool:
        """Whether series of both pages that do not match name a device."""
        return any(_ids(each.labels) for each in self.missing) and any(
            _ids(each.labels) for each in self.extra
        )


_Key = Callable[[Series], object]


def match(old: Metric, new: Metric, ignored_labels: Sequence[str] = ()) -> Match:
    of_old = old.label_names - set(ignored_labels)
    of_new = new.label_names - set(ignored_labels)
    common = sorted(of_old & of_new)
    found = Match(tuple(sorted(of_old - of_new)), tuple(sorted(of_new - of_old)), tuple(common))
    left, right = list(old.series), list(new.series)

    left, right = _pair(found, left, right, _values(common), several=True)
    if left and right:
        left, right = _pair(found, left, right, _written_alike(common))
    if left and right:
        order = sorted(common, key=lambda label: (_overlap(label, left, right), _rank(label), label))
        one_less = ([each for each in common if each != label] for label in order)
        identities = [label for label in order if _rank(label) >= 2]
        # Leave out more and more labels, as long as one that identifies the device remains.
        fewer = (
            [each for each in common if each not in dropped]
            for dropped in accumulate(([label] for label in order), lambda a, b: a + b)
            if not identities or set(identities) - set(dropped)
        )
        for key in (*one_less, *fewer):
            if key or (len(left) == len(right) == 1):
                left, right = _pair(found, left, right, _values(key))
            if not (left and right):
                break
    found.missing, found.extra = left, right
    found.renamed_labels = _renamed(found)
    return found


def _renamed(found: Match) -> dict[str, str]:
    pairs = [(dict(pair.old.labels), dict(pair.new.labels)) for pair in found.pairs]
    renamed = {}
    for missing in found.missing_labels:
        for extra in found.extra_labels:
            if pairs and all(old.get(missing) == new.get(extra) for old, new in pairs):
                renamed[missing] = extra
    return renamed


def _pair(
    found: Match, old: list[Series], new: list[Series], key: _Key, *, several: bool = False
) -> tuple[list[Series], list[Series]]:
    """Add the pairs with the same key and return the rest. With `several`, series that share a key are paired
    in their order."""
    by_key: dict[object, tuple[list[Series], list[Series]]] = defaultdict(lambda: ([], []))
    for series in old:
        by_key[key(series)][0].append(series)
    for series in new:
        by_key[key(series)][1].append(series)
    rest_old, rest_new = [], []
    for left, right in by_key.values():
        only = len(left) == len(right) == 1
        count = min(len(left), len(right)) if several or only else 0
        found.pairs += [_pair_of(a, b, only=only) for a, b in zip(left[:count], right[:count], strict=True)]
        rest_old += left[count:]
        rest_new += right[count:]
    return rest_old, rest_new


def _values(names: Sequence[str]) -> _Key:
    chosen = frozenset(names)
    return lambda series: tuple(pair for pair in series.labels if pair[0] in chosen)


def _written_alike(names: Sequence[str]) -> _Key:
    chosen = frozenset(names)
    return lambda series: tuple((n, _plain(value)) for n, value in series.labels if n in chosen)


def _plain(value: str) -> str:
    """Without case, blanks, punctuation and leading zeros, in which forms of ids and addresses differ."""
    return re.sub(r"[\W_]+", "", value).casefold().removeprefix("gpu").lstrip("0")


def _overlap(label: str, old: Sequence[Series], new: Sequence[Series]) -> bool:
    """Whether a value is on both pages."""
    return not _label_values(label, old).isdisjoint(_label_values(label, new))


def _label_values(label: str, series: Iterable[Series]) -> set[str]:
    return {value for each in series for name, value in each.labels if name == label}


def _pair_of(old: Series, new: Series, *, only: bool) -> Pair:
    ids_old, ids_new = _ids(old.labels), _ids(new.labels)
    common = ids_old.keys() & ids_new.keys()
    same = not common or any(ids_old[name] == ids_new[name] for name in common)
    return Pair(old, new, same, bool(common), only)


def _ids(labels: Labels) -> dict[str, str]:
    return {name: _plain(value) for name, value in labels if identifies(name)}
