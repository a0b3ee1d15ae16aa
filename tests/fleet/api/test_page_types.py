"""The types and constants of the page are those of the API and the model."""

import re

import pytest
from tests.repository import REPOSITORY

from accelscope.fleet.api.openapi import openapi
from accelscope.fleet.api.reference import types, vendors
from accelscope.fleet.api.routes import ROUTES
from accelscope.fleet.history import ROW_MINUTES, SUMMARY_MINUTES
from accelscope.model import (
    FAULT_THROTTLES,
    HARMLESS_THROTTLES,
    HOT_CELSIUS,
    HOT_MARGIN_CELSIUS,
    IDLE_SECONDS,
)
from accelscope.vendors import declarations


def test_the_types_contain_every_field_of_every_response() -> None:
    text = types()
    declared = {}
    for block in text.split("export ")[1:]:
        head, _, body = block.partition("{")
        declared[head.split()[1]] = body
    for name, schema in openapi(ROUTES, guarded=True)["components"]["schemas"].items():
        paged = re.fullmatch(r"Page_(\w+)_", name)
        shown = f"{paged[1]}Page" if paged else name
        for field in schema.get("properties", {}):
            assert f"  {field}: " in declared[shown], f"{name}.{field}"


def test_nullable_fields_are_nullable_in_the_types() -> None:
    text = types()
    assert "  utilization_ratio: number | null;" in text
    assert "  codes: (number | null)[];" in text
    assert "  devices_by_health: Record<string, number>;" in text
    assert "  health: HealthState;" in text or "  state: HealthState;" in text


PARTS = REPOSITORY / "web" / "src" / "parts"


@pytest.mark.parametrize("words", [HARMLESS_THROTTLES, FAULT_THROTTLES])
def test_the_page_has_all_throttle_reasons(words: frozenset[str]) -> None:
    lists = re.findall(r"_THROTTLES: [^=]*= \[(.*?)\]", vendors(), re.DOTALL)
    assert words in [set(re.findall(r'"(\w+)"', each)) for each in lists]


def test_the_page_has_the_title_of_every_vendor() -> None:
    for vendor in declarations().values():
        assert f'  "{vendor.name}": "{vendor.title}",' in vendors()


@pytest.mark.parametrize(
    ("name", "celsius"), [("HOT_MARGIN_CELSIUS", HOT_MARGIN_CELSIUS), ("HOT_CELSIUS", HOT_CELSIUS)]
)
def test_the_page_uses_the_same_temperature_limits(name: str, celsius: int) -> None:
    assert f"const {name} = {celsius};" in (PARTS / "table" / "heat.ts").read_text()


def test_the_page_uses_the_same_idle_time() -> None:
    assert f"const LONG_IDLE = {IDLE_SECONDS:g};" in (PARTS / "table" / "cells.tsx").read_text()


@pytest.mark.parametrize(("name", "minutes"), [("HOUR", ROW_MINUTES), ("DAY", SUMMARY_MINUTES)])
def test_the_page_uses_the_same_history_lengths(name: str, minutes: int) -> None:
    text = (REPOSITORY / "web" / "src" / "charts" / "history.ts").read_text()
    assert f"const {name} = {minutes * 60};" in text
