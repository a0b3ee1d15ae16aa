"""Tables of current values."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import dashboard as types
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.monitoring.dashboards.panels import DATASOURCE, GOOD, Levels, Link, Panel, Query, target


@dataclass(frozen=True, slots=True)
class Column:
    """A numeric column: an instant query whose labels identify the row."""

    title: str
    expression: str
    unit: str
    levels: Levels = ()
    most: float | None = None  # draws a bar from 0 to this value


def _overrides(column: Column) -> list[types.DynamicConfigValue]:
    found = [types.DynamicConfigValue("unit", column.unit)]
    cell: dict[str, object] = {}
    if column.levels:
        steps: list[dict[str, object]] = [{"value": None, "color": GOOD}]
        steps += [{"value": value, "color": color} for value, color in column.levels]
        found.append(types.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}))
        cell = {"type": "color-text"}
    if column.most is not None:
        found += [types.DynamicConfigValue("min", 0), types.DynamicConfigValue("max", column.most)]
        cell = {"type": "gauge", "mode": "gradient", "valueDisplayMode": "text"}
    if cell:
        found.append(types.DynamicConfigValue("custom.cellOptions", cell))
    return found


def rows(
    title: str,
    about: str,
    labels: Mapping[str, str],
    *columns: Column,
    links: Mapping[str, Link] | None = None,
    sort: str | None = None,
    width: int = 24,
    height: int = 8,
) -> Panel:
    """A table with one row for each set of `labels` (label -> title), which every column must
    keep.

    `links` are on the cells of these labels. `sort` is the title of the column to sort by, descending."""
    values = ["Value"] if len(columns) == 1 else [f"Value #{ref}" for ref in ascii_uppercase[: len(columns)]]
    named = dict(labels) | {value: column.title for value, column in zip(values, columns, strict=True)}
    order = {name: at for at, name in enumerate(named)}
    organize: dict[str, object] = {
        "excludeByName": {"Time": True},
        "indexByName": order,
        "renameByName": named,
    }
    panel = (
        table.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit("short")
        .no_value("None")
        .targets(
            [
                target(Query(column.expression), ref, instant=True, form=PromQueryFormat.TABLE)
                for column, ref in zip(columns, ascii_uppercase, strict=False)
            ]
        )
        .height(height)
        .span(width)
        .filterable(True)
    )
    if len(columns) > 1:
        panel = panel.with_transformation(types.DataTransformerConfig("merge", options={}))
    panel = panel.with_transformation(types.DataTransformerConfig("organize", options=organize))
    for column in columns:
        panel = panel.override_by_name(column.title, _overrides(column))
    for label, link in (links or {}).items():
        shown = [{"title": link.title, "url": link.url}]
        panel = panel.override_by_name(labels[label], [types.DynamicConfigValue("links", shown)])
    if sort is not None:
        panel = panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(True)])
    return panel


def alerts(about: str, matchers: str, *, width: int) -> Panel:
    """A table of firing and pending alerts with their number."""
    return rows(
        "Alerts",
        about,
        {"alertname": "Alert", "cause": "Cause", "severity": "Severity", "alertstate": "State"},
        Column(
            "Number", f"count by (alertname, cause, severity, alertstate) (ALERTS{{{matchers}}})", "short"
        ),
        sort="Number",
        width=width,
    )
