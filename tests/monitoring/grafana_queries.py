"""Asks a Prometheus what Grafana would ask for a dashboard: variables filled in, one after the other."""

import itertools
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

RANGE_SECONDS = 3600
# What Grafana puts in by itself, for a look at the last hour of a Prometheus that scrapes every 10 s.
_OWN = {"__rate_interval": "1m", "__interval": "10s", "__range": f"{RANGE_SECONDS}s"}
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.+), )?(?P<label>\w+)\)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
_MOST_CHOICES = 400


class Refused(AssertionError):
    """Prometheus does not understand the query."""


@dataclass(frozen=True)
class Asked:
    """A query of a panel, with its place for a message."""

    dashboard: str
    panel: str
    expression: str

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel}: {self.expression}"


def queries(name: str, document: Mapping[str, Any]) -> list[Asked]:
    return [
        Asked(name, panel["title"], target["expr"])
        for panel in document["panels"]
        for target in panel.get("targets", ())
    ]


@dataclass
class Store:
    """A Prometheus at this address."""

    url: str
    _answers: dict[str, int] = field(default_factory=dict)

    def anew(self) -> "Store":
        """That remembers no answer."""
        return Store(self.url)

    def fresh(self, expression: str) -> float:
        """The sum of what it finds now; 0 where that is nothing."""
        return sum(float(each["value"][1]) for each in self._get("query", query=expression)["result"])

    def results(self, expression: str) -> int:
        """How many series it finds now. Raises Refused."""
        if expression not in self._answers:
            self._answers[expression] = len(self._get("query", query=expression)["result"])
        return self._answers[expression]

    def label_values(self, selector: str | None, label: str) -> list[str]:
        given = {"match[]": selector} if selector else {}
        return list(self._get(f"label/{label}/values", **given))

    def alerts(self) -> list[Any]:
        return list(self._get("alerts")["alerts"])

    def rules(self) -> list[Any]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **parameters: str) -> Any:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Refused(f"{parameters}: {error.read().decode(errors='replace')}") from None


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Raises KeyError for a variable that the dashboard does not have."""
    known = {**_OWN, **values}
    return _VARIABLE.sub(lambda match: known[match[1] or match[2]], text)


def stat(document: Mapping[str, Any], title: str) -> str:
    """What the single figure of this title asks."""
    [found] = [
        panel["targets"][0]["expr"]
        for panel in document["panels"]
        if (panel["type"], panel["title"]) == ("stat", title)
    ]
    return str(found)


def variable_queries(document: Mapping[str, Any]) -> dict[str, str]:
    return {
        each["name"]: each["query"]["query"]
        for each in document["templating"]["list"]
        if each["type"] == "query"
    }


def choices(store: Store, document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Every way to fill in the variables of which one value is chosen, the others as they stand at first. A
    hidden one of which all are chosen is what its query finds."""
    listed = [each for each in document["templating"]["list"] if each["type"] != "datasource"]
    found: list[dict[str, str]] = [{}]
    for variable in listed:
        found = [
            {**values, variable["name"]: value}
            for values in found
            for value in _values(store, variable, values)
        ]
    return itertools.islice(found, _MOST_CHOICES)


def _values(store: Store, variable: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    if variable["type"] == "custom":
        return [option["value"] for option in variable["options"]]
    if variable.get("allValue"):
        return [variable["allValue"]]
    match = _LABEL_VALUES.fullmatch(fill_in(variable["query"]["query"], values))
    assert match, variable["query"]
    offered = store.label_values(match["selector"], match["label"])
    if variable["includeAll"]:
        return ["|".join(map(re.escape, offered))]
    return offered or [""]  # what Grafana puts in where there is nothing to choose


def in_promql(value: str) -> str:
    """As it must stand within quotes of PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def unanswered(store: Store, name: str, document: Mapping[str, Any]) -> list[Asked]:
    """Queries of panels that find nothing, whichever node and device is chosen. Raises Refused."""
    left = queries(name, document)
    for values in choices(store, document):
        quoted = {variable: in_promql(value) for variable, value in values.items()}
        left = [asked for asked in left if not store.results(fill_in(asked.expression, quoted))]
        if not left:
            break
    return left
