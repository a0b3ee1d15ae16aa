"""PromQL that is checked against what the programs publish: a family that was renamed, or a label that it
does not have, stops the making of dashboards and rules."""

import re
from collections.abc import Collection

from accelscope.deviceplugin.metrics import PLUGIN
from accelscope.fleet.metrics import FAMILIES as FLEET
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.family import SCOPE_LABELS, Family, Scope

FAMILIES: dict[str, Family] = {family.name: family for family in (*CATALOGUE, *PLUGIN, *FLEET)}

# Put on by who scrapes. `cluster` is there where a Prometheus, or the store behind several, holds many.
TARGET_LABELS = frozenset({"cluster", "job", "instance"})
# Of Prometheus itself: what it says of targets and alerts.
OTHERS: dict[str, frozenset[str]] = {
    "up": frozenset(),
    "scrape_samples_scraped": frozenset(),
    "scrape_duration_seconds": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "node", "device", "namespace", "pod"}),
}
_FURTHER_LABELS = {
    Scope.POD: ("partition",),
    Scope.PROCESS: ("partition",),
}
_NODE_LABEL = {"accelerator_info"}  # has it beside the labels that the catalogue declares

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHED = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OURS = re.compile(r"(?:accelerator|accelscope)_\w+|\w*:[\w:]*|ALERTS\w*|up|scrape_\w+")


class UnknownName(Exception):
    """An expression asks for what nobody publishes."""


def labels_of(name: str) -> frozenset[str]:
    """Every label that a series of this family may have. Raises UnknownName."""
    if name in OTHERS:
        return OTHERS[name] | TARGET_LABELS
    if name not in FAMILIES:
        raise UnknownName(f"no family is called {name}")
    family = FAMILIES[name]
    further = _FURTHER_LABELS.get(family.scope, ())
    node = ("node",) if name in _NODE_LABEL else ()
    return frozenset((*SCOPE_LABELS[family.scope], *family.labels, *further, *node)) | TARGET_LABELS


_ALL_LABELS = frozenset().union(*(labels_of(name) for name in (*FAMILIES, *OTHERS)))


def checked(expression: str, recorded: Collection[str] = ()) -> str:
    """The expression as it is, if all that it names exists: families of the catalogue, `recorded` names, and
    labels that they can have. Raises UnknownName."""
    text = _STRING.sub('""', expression)
    for name, matchers in _SELECTOR.findall(text):
        if ":" in name:
            continue  # labels of recorded series are those of their level, which stand in their name
        unknown = set(_MATCHED.findall(matchers)) - labels_of(name)
        if unknown:
            raise UnknownName(f"{name} has no label {', '.join(sorted(unknown))}: {expression}")
    for listed in _GROUPED.findall(text):
        unknown = set(_NAME.findall(listed)) - _ALL_LABELS - {"le"}
        if unknown:
            raise UnknownName(f"nothing has a label {', '.join(sorted(unknown))}: {expression}")
    bare = _GROUPED.sub("", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text))
    for name in _NAME.findall(bare):
        if _OURS.fullmatch(name) and name not in recorded:
            labels_of(name)
    return expression


# One agent's series are matched by their target; the same agent may be scraped by two jobs.
OF_TARGET = "on (cluster, job, instance)"
OF_DEVICE = "on (cluster, job, instance, device)"
A_DEVICE = "cluster, job, instance, vendor, device"  # to group by, of what its pods share


_REMEMBERED = "1d"  # how long a gap in scraping may be after which a series is still known


def begun_within(selector: str, window: str) -> str:
    """Counters whose first event, since their process began, fell into the window: their whole count is news.
    Before it they were not there, or higher. One that comes back after a gap in scraping as it was, or higher
    than that, is none of them."""
    return f"({selector} unless (last_over_time({selector}[{_REMEMBERED}] offset {window}) <= {selector}))"


def with_model(expression: str, info: str = "", labels: str = "node, model") -> str:
    """Series of devices with labels that only `accelerator_info` has. `info`: matchers of it, which thereby
    choose devices by node and model."""
    braces = f"{{{info}}}" if info else ""
    return f"{expression} * {OF_DEVICE} group_left ({labels}) accelerator_info{braces}"


def with_node(expression: str, info: str = "") -> str:
    """Series of an agent with the name of its node."""
    braces = f"{{{info}}}" if info else ""
    return f"{expression} * {OF_TARGET} group_left (node) accelscope_node_info{braces}"
