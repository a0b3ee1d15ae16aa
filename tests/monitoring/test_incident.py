"""`make incident`: rules whose times are shortened are the same rules."""

from pathlib import Path

import pytest
import yaml
from tests.monitoring.promtool import promtool
from tests.repository import CHART
from tools.incident.__main__ import faster
from tools.incident.alertmanager import accelerated, configuration

RULES = (CHART / "rules" / "alerts.yaml", CHART / "rules" / "recording.yaml")


@pytest.mark.parametrize(
    ("given", "shorter"), [("15m", "90s"), ("1h", "360s"), ("1m30s", "9s"), ("5s", "1s"), ("0m", "0s")]
)
def test_durations_are_divided(given: str, shorter: str) -> None:
    assert accelerated(given, 10) == shorter


def test_only_times_of_rules_change() -> None:
    ages = '((time() - t{a="b"}) < 900) * i or (time() - s > 300)'
    rule = {"alert": "A", "expr": f"x[10m] offset 15m > 300 and y[1d] or {ages}", "for": "10m"}
    document = {"groups": [{"name": "g", "rules": [rule]}]}
    [[shortened]] = [group["rules"] for group in yaml.safe_load(faster(yaml.dump(document), 10))["groups"]]
    younger = '((time() - t{a="b"}) < 90) * i or (time() - s > 30)'
    assert shortened["expr"] == f"x[60s] offset 90s > 300 and y[1d] or {younger}"
    assert shortened["for"] == "60s"


def test_promtool_accepts_the_shortened_rules(tmp_path: Path) -> None:
    for file in RULES:
        (tmp_path / file.name).write_text(faster(file.read_text(), 10))
        assert promtool("check", "rules", str(tmp_path / file.name)).returncode == 0


def test_the_example_keeps_its_routes_and_has_receivers_that_can_be_read() -> None:
    routing = configuration("http://127.0.0.1:1", 10)
    assert [each["webhook_configs"] for each in routing["receivers"]] == [
        [{"url": f"http://127.0.0.1:1/{name}"}] for name in ("pager", "tickets", "channel")
    ]
    [ours] = routing["route"]["routes"]
    assert ours["group_by"] == ["cluster", "node", "cause"]
    assert ours["group_wait"] == "6s"
