"""Deprecated settings still work, are hidden in --help and are reported where they are set."""

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


def test_a_deprecated_setting_that_is_set_to_its_default_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    load(Settings, {"workers": "9"}, {"RETRIES": "2"}).log_deprecated(logging.getLogger("test"))
    assert caplog.messages == ["RETRIES is deprecated and will be removed: two are enough."]


def test_a_deprecated_setting_that_is_not_set_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    load(Settings, {"workers": "9"}, {}).log_deprecated(logging.getLogger("test"))
    assert caplog.messages == []


def test_help_refers_to_another_command_for_settings_that_it_leaves_out() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Settings, listed_by="accelscope work")
    assert "--workers" not in parser.format_help()
    assert "accelscope work --help lists them" in " ".join(parser.format_help().split())
    assert parser.parse_args(["--workers", "3"]).workers == "3"


def test_help_hides_a_deprecated_setting_and_the_reference_lists_it_last() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Settings)
    assert "--workers" in parser.format_help()
    assert "--retries" not in parser.format_help()
    assert parser.parse_args(["--retries", "3"]).retries == "3"
    first, _, last = reference(Settings).partition("## Deprecated")
    assert "`--workers`" in first
    assert "`--retries`" in last
