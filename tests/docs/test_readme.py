"""What the README quotes is what the programs say."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from demo.__main__ import where_to_look
from tests.repository import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def test_the_demo_says_where_to_look_as_the_readme_quotes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.__main__._ACCELSCOPE", Path(".venv/bin/accelscope"))
    demo: Any = SimpleNamespace(
        page_url="http://127.0.0.1:8080",
        agent_url="http://127.0.0.1:9400",
        alerts_url="http://127.0.0.1:9090/classic/alerts",
        lab=SimpleNamespace(settings_file="/tmp/accelscope-demo-…/lab/demo-agent.yaml"),
    )
    [quoted] = re.findall(r"^```text\n(demo: .*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert where_to_look(demo) in quoted
