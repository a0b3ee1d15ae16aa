"""Checks PromQL against the metrics that the programs export.

An unknown metric or label stops the generation of dashboards and rules."""

import re
from collections.abc import Collection

from accelscope.deviceplugin.metrics import PLUGIN
from accelscope.fleet.metrics import FAMILIES as FLEET
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.family import SCOPE_LABELS, Family, Scope

FAMILIES: dict[str, Family] = {family.name: family for family in (*CATALOGUE, *PLUGIN, *FLEET)}

# Set by Prometheus. `cluster` exists if a Prometheus, or the store behind several, covers several clusters.
TARGET_LABELS = frozenset({"cluster", "job", "instance"})
# Series of Prometheus itself.
OTHERS: dict[str, frozenset[str]] = {
    "up": frozenset({"node"}),  # if the target has it, as with the chart's monitors
    "scrape_samples_scraped": frozenset(),
    "scrape_duration_seconds": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "node", "cause", "namespace", "pod"}),
}
_FURTHER_LABELS = {
    Scope.POD: ("partition",),
    Scope.PROCESS: ("partition",),
}
_NODE_LABEL = {"accelerator_info"}  # has `node` in addition to the labels in the catalogue

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHED = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OURS = re.compile(r"(?:accelerator|accelscope)_\w+|\w*:[\w:]*|ALERTS\w*|up|scrape_\w+")


class UnknownName(Exception):
    """An expression uses a metric or label that no program exports."""


def labels_of(name: str) -> frozenset[str]:
    """All labels that a series of this metric may have. Raises UnknownName."""
    if name in OTHERS:
        return OTHERS[name] | TARGET_LABELS
    if name not in FAMILIES:
        raise UnknownName(f"unknown metric {name}")
    family = FAMILIES[name]
    further = _FURTHER_LABELS.get(family.scope, ())
    node = ("node",) if name in _NODE_LABEL else ()
    return frozenset((*SCOPE_LABELS[family.scope], *family.labels, *further, *node)) | TARGET_LABELS


_ALL_LABELS = frozenset().union(*(labels_of(name) for name in (*FAMILIES, *OTHERS)))


def checked(expression: str, recorded: Collection[str] = ()) -> str:
    """Return the expression if all its metrics, labels and `recorded` names exist. Raises UnknownName."""
    text = _STRING.sub('""', expression)
    for name, matchers in _SELECTOR.findall(text):
        if ":" in name:
            continue  # the name of a recorded series lists its labels
        unknown = set(_MATCHED.findall(matchers)) - labels_of(name)
        if unknown:
            raise UnknownName(f"{name} has no label {', '.join(sorted(unknown))}: {expression}")
    for listed in _GROUPED.findall(text):
        unknown = set(_NAME.findall(listed)) - _ALL_LABELS - {"le"}
        if unknown:
            raise UnknownName(f"unknown label {', '.join(sorted(unknown))}: {expression}")
    bare = _GROUPED.sub("", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text))
    for name in _NAME.findall(bare):
        if _OURS.fullmatch(name) and name not in recorded:
            labels_of(name)
    return expression


# Series of one agent are matched by their target, since two jobs may scrape the same agent.
OF_TARGET = "on (cluster, job, instance)"
OF_DEVICE = "on (cluster, job, instance, device)"
A_DEVICE = "cluster, job, instance, vendor, device"  # grouping labels of one device


_REMEMBERED = "1d"  # a series that returns after a longer scrape gap counts as new
_GAP = "5m"  # a series that was not scraped for less than this still has its last value


def last(selector: str) -> str:
    """The last value, also in a short scrape gap and while an agent is replaced by another."""
    return f"last_over_time({selector}[{_GAP}])"


def begun_within(selector: str, window: str) -> str:
    """Counters whose first event since the start of their process is within the window, so that their whole
    count is new. Before the window they did not exist or were higher. A counter that returns after a scrape
    gap with the same or a higher value is not included."""
    earlier = f"last_over_time({selector}[{_REMEMBERED}] offset {window})"
    return f"({last(selector)} unless ({earlier} <= {last(selector)}))"


def with_model(expression: str, info: str = "", labels: str = "node, model") -> str:
    """Add `labels` from `accelerator_info` to series of devices. `info`: matchers on `accelerator_info`."""
    braces = f"{{{info}}}" if info else ""
    return f"{expression} * {OF_DEVICE} group_left ({labels}) accelerator_info{braces}"


def with_node(expression: str, info: str = "") -> str:
    """Add the label `node` to series of an agent."""
    braces = f"{{{info}}}" if info else ""
    return f"{expression} * {OF_TARGET} group_left (node) accelscope_node_info{braces}"


def of_node(expression: str, labels: str = "node", info: str = "accelscope_node_info") -> str:
    """Add `labels` of `info`, which has one series per target, to series that may be in a scrape gap."""
    known = f"max by (cluster, job, instance, {labels}) ({last(info)})"
    return f"{expression} * {OF_TARGET} group_left ({labels}) {known}"
