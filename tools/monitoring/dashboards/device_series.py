"""Series of the selected device."""

from collections.abc import Iterable

HERE = 'cluster="$cluster", instance=~"$instance", device="$device"'
POD = {"namespace": "Namespace", "pod": "Pod", "container": "Container"}


def of(family: str, matchers: str = "") -> str:
    return f"{family}{{{HERE}{matchers}}}"


def rate(family: str) -> str:
    return f"rate({of(family)}[$__rate_interval])"


def by(labels: Iterable[str], family: str) -> str:
    return f"sum by ({', '.join(labels)}) ({of(family)})"
