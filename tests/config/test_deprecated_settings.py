"""Deprecated settings still work, are hidden in --help and are reported if they are changed."""

import argparse
import logging
from dataclasses import dataclass

import pytest

from accelscope.config import WholeNumber, add_arguments, load, reference, setting


@dataclass(frozen=True, slots=True)
class Settings:
    workers: int = setting(4, WholeNumber(1, 9), "Workers.", group="Work")
    retries: int = setting(2, WholeNumber(0, 9), "Retries.", group="Work", deprecated="two are enough.")


def test_a_changed_deprecated_setting_works_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(Settings, {"retries": "5"}, {})
    with caplog.at_level(logging.WARNING):
        loaded.log_deprecated(logging.getLogger("test"))
    assert loaded.settings.retries == 5
    assert caplog.messages == ["--retries is deprecated and will be removed: two are enough."]


def test_a_deprecated_setting_with_its_default_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    load(Settings, {"retries": "2", "workers": "9"}, {}).log_deprecated(logging.getLogger("test"))
    assert caplog.messages == []


def test_help_hides_a_deprecated_setting_and_the_reference_lists_it_last() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Settings)
    assert "--workers" in parser.format_help()
    assert "--retries" not in parser.format_help()
    assert parser.parse_args(["--retries", "3"]).retries == "3"
    first, _, last = reference(Settings).partition("## Deprecated")
    assert "`--workers`" in first
    assert "`--retries`" in last
