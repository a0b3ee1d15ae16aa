"""PromQL, as far as we write it."""

import re
from collections.abc import Iterable, Mapping

# What Prometheus' regular expressions (RE2) take for more than itself.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def equal(label: str, value: str) -> str:
    return f"{label}={quoted(value)}"


def one_of(label: str, values: Iterable[str]) -> str:
    """Stores look plain alternatives up one by one, and try no regular expression on each series."""
    alternatives = (_SPECIAL.sub(r"\\\g<0>", value) for value in values)
    return f"{label}=~{quoted('|'.join(alternatives))}"


def matching(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(equal(label, value) for label, value in labels.items())


def series(names: Iterable[str], *matchers: str) -> str:
    """Series of families by their names."""
    listed = tuple(names)
    if len(listed) == 1:
        return f"{listed[0]}{{{','.join(matchers)}}}"
    return f"{{{','.join((one_of('__name__', listed), *matchers))}}}"


def once(expression: str, labels: Iterable[str]) -> str:
    """With these labels only. What two replicas of a store scraped of the same target is one series then, and
    no label that a scrape put on it makes the answer longer."""
    return f"max by ({', '.join(labels)}) ({expression})"
