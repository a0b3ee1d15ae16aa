"""Pages of metrics are parsed as Prometheus does."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser as text_parser
from tests.compare.pages import page
from tests.hostile import in_linear_time
from tests.metrics.dialect_nodes import NODES
from tests.repository import REPOSITORY

from accelscope.compare import PageError, parse
from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition


def labels_of(text: str) -> dict[str, str]:
    [metric] = page(text).metrics.values()
    return dict(metric.series[0].labels)


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("up 1\n", {}, 1.0),
        ("up{} 1\n", {}, 1.0),
        ('up{a="b"} 1\n', {"a": "b"}, 1.0),
        ('up{a="b",} 1\n', {"a": "b"}, 1.0),
        ('up { a = "b" , c = "d" } 1\n', {"a": "b", "c": "d"}, 1.0),
        ('up{a="x}y{"} 1\n', {"a": "x}y{"}, 1.0),
        ('up{a="say \\"hi\\" \\\\ \\n"} 1\n', {"a": 'say "hi" \\ \n'}, 1.0),
        ('up{a="b"} 1.5e3 1723621883932\n', {"a": "b"}, 1500.0),
        ('up{a="b"} 1 # {trace_id="4bf"} 0.5 1723621883.9\n', {"a": "b"}, 1.0),
        ('up{a="b"} +Inf\r\n', {"a": "b"}, float("inf")),
        ('up{a="",b="c"} 1\n', {"b": "c"}, 1.0),  # an empty label is none
    ],
)
def test_a_line_is_parsed(line: str, labels: dict[str, str], value: float) -> None:
    [metric] = page(line).metrics.values()
    assert metric.name == "up"
    [series] = metric.series
    assert (dict(series.labels), series.value) == (labels, value)


@pytest.mark.parametrize("name", dialects.NAMES)
def test_our_pages_have_the_series_that_the_reference_parser_finds(name: str) -> None:
    rendered = Exposition(dialects=dialects.load((name,))).render(NODES[name])
    expected = {
        (sample.name, frozenset(pair for pair in sample.labels.items() if pair[1]), sample.value)
        for metric in text_parser.text_string_to_metric_families(rendered.text.decode())
        for sample in metric.samples
    }
    for text in (rendered.text, rendered.openmetrics):
        parsed = page(text.decode())
        found = {
            (metric.name, frozenset(series.labels), series.value)
            for metric in parsed.metrics.values()
            for series in metric.series
        }
        # The reference parser adds _total to counters that lack it.
        assert {(n.removesuffix("_total"), *rest) for n, *rest in found} == {
            (n.removesuffix("_total"), *rest) for n, *rest in expected
        }


def test_type_and_help_are_found_in_both_formats() -> None:
    text = page("# HELP x_total Text.\n# TYPE x_total counter\nx_total 1\n")
    openmetrics = page("# TYPE x counter\n# HELP x Text.\nx_total 1\n# EOF\n")
    for metric in (text.metrics["x_total"], openmetrics.metrics["x_total"]):
        assert (metric.type, metric.help) == ("counter", "Text.")
    assert openmetrics.openmetrics
    assert not text.openmetrics


def test_lines_after_the_end_of_an_openmetrics_page_are_not_read() -> None:
    assert list(page("a 1\n# EOF\nb 1\n").metrics) == ["a"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no metrics"),
        ("# only comments\n", "no metrics"),
        ("<!DOCTYPE html>\n<html></html>\n", "HTML page"),
        ('a 1\nb{c="d', "b:2: the page is truncated"),
        ('a 1\nb{c="d"}', "b:2: the page is truncated"),
        ("a 1\nmetric5", "b:2: the page is truncated"),
        ("a 1\nnot a metric at all\nb 1\n", "b:2: not a line of a metrics page: 'not a metric at all'"),
        ('{"status": "success"}\n', "b: this is JSON, not metrics"),
        ('a{b="c",b="d"} 1\n', "b:1: not a line"),
        ("a 1_000\n", "b:1: not a line"),
        ("a one\n", "b:1: not a line"),
    ],
)
def test_a_page_that_cannot_be_parsed_is_an_error_with_its_place(text: str, told: str) -> None:
    with pytest.raises(PageError) as failure:
        parse(text, "b")
    assert told in str(failure.value)


def test_a_last_line_without_line_feed_is_remarked() -> None:
    assert page("a 1\nb 12").remarks == ("the last line has no line feed: the page may be truncated",)
    assert page("a 1\nb 12\n").remarks == ()


def test_series_that_are_on_a_page_twice_are_remarked() -> None:
    [remark] = page('a{b="c"} 1\na{b="c"} 2\n').remarks
    assert remark == "a: 1 of 2 series have the labels of another"


@given(st.text())
def test_any_text_is_a_page_or_an_error(text: str) -> None:
    with suppress(PageError):
        parse(text, "page")


@pytest.mark.parametrize(
    "text",
    [
        "a{" * 30_000,
        'a{b="' + "\\" * 60_000,
        "a{" + 'b="c",' * 10_000,
        "a" * 60_000,
        'a{b="c" ' + " " * 60_000,
    ],
)
def test_hostile_lines_are_read_in_linear_time(text: str) -> None:
    with in_linear_time(), pytest.raises(PageError):
        parse(text, "page")


def test_the_bare_install_is_enough() -> None:
    """prometheus_client is a development dependency only."""
    for file in (REPOSITORY / "src/accelscope/compare").glob("*.py"):
        assert "prometheus_client" not in file.read_text()
