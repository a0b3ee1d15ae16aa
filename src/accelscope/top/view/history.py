"""What was seen so far, for sparklines: by the reading, not by the minute, and only while somebody looks."""

from collections import deque

from accelscope.top.view.shown import View
from accelscope.top.view.sums import sums_of

KEPT = 240  # readings
ALL = ""  # key of the mean over everything


class History:
    def __init__(self) -> None:
        self._series: dict[str, deque[float | None]] = {}
        self._shown: str | None = None

    def note(self, view: View) -> None:
        """A reading. A device that is not in it has a gap; one that was absent for long is forgotten."""
        values = _values(view)
        scope = f"{view.kind} {view.overview is None} {view.title} {[node.key for node in view.nodes]}"
        if view.overview is not None:
            scope = f"{view.kind} overview"
        if scope != self._shown:
            self._series, self._shown = {}, scope
        for key in self._series.keys() | values.keys():
            self._series.setdefault(key, deque(maxlen=KEPT)).append(values.get(key))
        for key in [key for key, series in self._series.items() if all(value is None for value in series)]:
            del self._series[key]

    def of(self, key: str) -> list[float | None]:
        return list(self._series.get(key, ()))


def _values(view: View) -> dict[str, float | None]:
    values: dict[str, float | None] = {ALL: sums_of(view).utilization_ratio}
    if view.overview is not None:
        for cluster in view.overview.clusters:
            values[cluster.key] = cluster.sums.utilization_ratio
        for row in view.overview.nodes:
            values[row.key] = row.sums.utilization_ratio
    for node in view.nodes:
        for device in node.devices:
            values[device.key] = device.utilization_ratio
            for partition in device.partitions:
                values[partition.key] = partition.utilization_ratio
    return values
