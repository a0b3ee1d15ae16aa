"""Runs the queries of a dashboard on a Prometheus as Grafana would, with variables filled in."""

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
# Grafana's built-in variables, for a range of one hour and a scrape interval of 10 s.
_OWN = {"__rate_interval": "1m", "__interval": "10s", "__range": f"{RANGE_SECONDS}s"}
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.+), )?(?P<label>\w+)\)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
_MOST_CHOICES = 400


class QueryRejected(AssertionError):
    """Prometheus rejected the query."""


@dataclass(frozen=True)
class PanelQuery:
    """A query of a panel, with the panel's name for messages."""

    dashboard: str
    panel: str
    expression: str

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel}: {self.expression}"


def queries(name: str, document: Mapping[str, Any]) -> list[PanelQuery]:
    return [
        PanelQuery(name, panel["title"], target["expr"])
        for panel in document["panels"]
        for target in panel.get("targets", ())
    ]


@dataclass
class Store:
    """A Prometheus at `url`. Caches the results of `results`."""

    url: str
    _answers: dict[str, int] = field(default_factory=dict)

    def without_cache(self) -> "Store":
        return Store(self.url)

    def fresh(self, expression: str) -> float:
        """The sum of the current values; 0 for an empty result. Not cached."""
        return sum(float(each["value"][1]) for each in self._get("query", query=expression)["result"])

    def results(self, expression: str) -> int:
        """The number of series that match now. Raises QueryRejected."""
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
            raise QueryRejected(f"{parameters}: {error.read().decode(errors='replace')}") from None


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Raises KeyError for a variable that the dashboard does not have."""
    known = {**_OWN, **values}
    return _VARIABLE.sub(lambda match: known[match[1] or match[2]], text)


def stat(document: Mapping[str, Any], title: str) -> str:
    """The query of the stat panel with this title."""
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
    """Every combination of the single-value variables; the others have their default. A hidden variable with
    all values selected has the values that its query returns."""
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
    return offered or [""]  # Grafana's value if there is nothing to select


def in_promql(value: str) -> str:
    """Escape a value for use within quotes in PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def unanswered(store: Store, name: str, document: Mapping[str, Any]) -> list[PanelQuery]:
    """Queries of panels that return nothing for any combination of variables. Raises QueryRejected."""
    left = queries(name, document)
    for values in choices(store, document):
        quoted = {variable: in_promql(value) for variable, value in values.items()}
        left = [asked for asked in left if not store.results(fill_in(asked.expression, quoted))]
        if not left:
            break
    return left
