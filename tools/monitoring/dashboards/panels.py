"""Panels in one style. All expressions are checked against the exported metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as common_types
from grafana_foundation_sdk.models import dashboard as types
from grafana_foundation_sdk.models import heatmap as heatmap_types
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.monitoring.promql import checked
from tools.monitoring.rules.recording import RECORDED

Panel = Builder[types.Panel]
# Thresholds in the panel's unit: (value, colour), ascending.
Levels = Sequence[tuple[float, str]]
States = Mapping[int, tuple[str, str]]  # value -> text, colour

DATASOURCE = types.DataSourceRef(type_val="prometheus", uid="${datasource}")
RECORDED_ABSENT = "No data. Check that the recording rules are loaded."

GOOD, WARN, BAD, DULL = "green", "orange", "red", "gray"


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    title: str
    url: str


def target(
    query: Query, ref: str, *, instant: bool = False, form: PromQueryFormat = PromQueryFormat.TIME_SERIES
) -> prometheus.Dataquery:
    made = (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(checked(query.expression, RECORDED))
        .ref_id(ref)
        .format(form)
    )
    if query.legend:
        made = made.legend_format(query.legend)
    return made.instant() if instant else made.range()


def _targets(queries: Sequence[Query]) -> list[Builder[Dataquery]]:
    return [target(query, ref) for query, ref in zip(queries, ascii_uppercase, strict=False)]


def _of_recorded(expression: str) -> bool:
    return any(name in expression for name in RECORDED)


def _missing(queries: Sequence[Query]) -> str:
    return RECORDED_ABSENT if any(_of_recorded(query.expression) for query in queries) else "No data"


def _thresholds(levels: Levels) -> dashboard.ThresholdsConfig:
    steps = [types.Threshold(value=None, color=GOOD)]
    steps += [types.Threshold(value=value, color=color) for value, color in levels]
    return dashboard.ThresholdsConfig().mode(types.ThresholdsMode.ABSOLUTE).steps(steps)


def _links(links: Sequence[Link]) -> list[Builder[types.DashboardLink]]:
    return [dashboard.DashboardLink(link.title).url(link.url) for link in links]


def lines(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    stacked: bool = False,
    most: float | None = None,
    links: Sequence[Link] = (),
    width: int = 12,
) -> Panel:
    """A time series graph. `stacked`: the series are parts of a whole."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .min(0)
        .no_value(_missing(queries))
        .targets(_targets(queries))
        .height(8)
        .span(width)
        .line_width(1)
        .fill_opacity(25 if stacked else 5)
        .show_points(common_types.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_types.LegendDisplayMode.TABLE)
            .placement(common_types.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_types.TooltipDisplayMode.MULTI)
            .sort(common_types.SortOrder.DESCENDING)
        )
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(common_types.StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    return panel.data_links(_links(links)) if links else panel


def number(
    title: str,
    about: str,
    unit: str,
    expression: str,
    *,
    levels: Levels = (),
    width: int = 4,
    decimals: int | None = None,
) -> Panel:
    """The current value, with a sparkline."""
    query = Query(expression)
    panel = stat.Panel() if decimals is None else stat.Panel().decimals(decimals)
    return (
        panel.title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .no_value(RECORDED_ABSENT if _of_recorded(expression) else "-")
        .targets(_targets([query]))
        .height(4)
        .span(width)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(common_types.BigValueGraphMode.AREA)
        .color_mode(common_types.BigValueColorMode.VALUE)
        .thresholds(_thresholds(levels))
    )


def amount(title: str, about: str, unit: str, expression: str, *, width: int = 4) -> Panel:
    """One value over the selected time range."""
    query = Query(expression)
    return (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .no_value(RECORDED_ABSENT if _of_recorded(expression) else "-")
        .targets([target(query, "A", instant=True)])
        .height(4)
        .span(width)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(common_types.BigValueGraphMode.NONE)
        .color_mode(common_types.BigValueColorMode.NONE)
    )


def ranking(
    title: str,
    about: str,
    unit: str,
    query: Query,
    *,
    levels: Levels = (),
    most: float | None = None,
    links: Sequence[Link] = (),
    width: int = 12,
) -> Panel:
    """Horizontal bars, sorted by value."""
    panel = (
        bargauge.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .min(0)
        .no_value(_missing([query]))
        .targets([target(query, "A", instant=True)])
        .height(8)
        .span(width)
        .orientation(common_types.VizOrientation.HORIZONTAL)
        .display_mode(common_types.BarGaugeDisplayMode.GRADIENT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(levels))
    )
    if most is not None:
        panel = panel.max(most)
    return panel.data_links(_links(links)) if links else panel


def states(title: str, about: str, words: States, *queries: Query, width: int = 12) -> Panel:
    """A state timeline with one lane per series."""
    options = {
        str(value): types.ValueMappingResult(text=text, color=color, index=at)
        for at, (value, (text, color)) in enumerate(words.items())
    }
    return (
        statetimeline.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit("short")
        .no_value(_missing(queries))
        .targets(_targets(queries))
        .height(8)
        .span(width)
        .mappings([types.ValueMap(options=options)])
        .show_value(common_types.VisibilityMode.NEVER)
        .row_height(0.9)
        .line_width(0)
        .fill_opacity(70)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_types.LegendDisplayMode.LIST)
            .placement(common_types.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )


def heat(title: str, about: str, unit: str, expression: str, *, width: int = 12) -> Panel:
    """A heat map of cumulative buckets with the label `le`."""
    query = Query(expression, "{{le}}")
    return (
        heatmap.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit("short")
        .no_value(_missing([query]))
        .targets([target(query, "A", form=PromQueryFormat.HEATMAP)])
        .height(8)
        .span(width)
        .calculate(False)
        .hide_from(common.HideSeriesConfig().legend(False).tooltip(False).viz(False))
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_types.HeatmapColorMode.SCHEME)
            .scheme("Turbo")
            .steps(32)
        )
    )
