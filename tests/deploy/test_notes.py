"""What helm says after an installation: above all, what somebody has left open."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import CHART, Template


def notes(template: Template, folder: Path, values: dict[str, Any]) -> str:
    """helm template does not show them, so here they are the text of an object."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    shown = 'kind: Notes\ntext: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text('{{ define "notes" }}' + text + "{{ end }}" + shown)
    done = template(values, chart=chart)
    assert done.returncode == 0, done.stderr
    [found] = [each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "Notes"]
    return str(found["text"])


OPEN_TOKENS = "tokens are asked for and nothing is encrypted"
OPEN_NODES = "the agents may patch all nodes"
TLS = {"tls": {"secretName": "tls"}}


@pytest.mark.parametrize(
    ("values", "warnings"),
    [
        ({}, set()),
        ({"http": {"tokenReview": True}}, {OPEN_TOKENS, "also open the API server"}),
        ({"http": {"tokenSecretName": "token"}}, {OPEN_TOKENS}),
        ({"http": {"tokenReview": True, "tokenSecretName": "token", **TLS}}, set()),
        ({"nodeObject": {"npuAnnotation": True, "admissionPolicy": False}}, {OPEN_NODES}),
        ({"nodeObject": {"npuAnnotation": True}}, set()),
    ],
)
def test_what_is_open_is_said(
    template: Template, tmp_path: Path, values: dict[str, Any], warnings: set[str]
) -> None:
    said = " ".join(notes(template, tmp_path, values).split())
    known = {OPEN_TOKENS, OPEN_NODES, "also open the API server"}
    assert {each for each in known if each in said} == warnings


def test_scheme_of_the_page(template: Template, tmp_path: Path) -> None:
    assert "https://localhost:9410/" in notes(template, tmp_path, {"http": {"port": 9410, **TLS}})
