"""The chart's notes after an installation, above all the warnings."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.conftest import Renderings, Template
from tests.deploy.objects import of_kind
from tests.repository import CHART


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """helm template does not show notes, so this renders them as the text of an object."""
    chart = tmp_path_factory.mktemp("notes") / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    shown = 'kind: Notes\ntext: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text('{{ define "notes" }}' + text + "{{ end }}" + shown)
    return chart


@pytest.fixture
def notes(template: Template, renderings: Renderings, chart: Path) -> Callable[[dict[str, Any]], str]:
    def run(values: dict[str, Any]) -> str:
        [found] = of_kind(renderings.objects(template(values, chart=chart)), "Notes")
        return str(found["text"])

    return run


OPEN_TOKENS = "tokens are required but the connection is not encrypted"
OPEN_NODES = "the agents may patch all nodes"
OPEN_FLEET = "the fleet requires no authentication"
OPEN_FLEET_TOKENS = "the fleet's tokens are sent unencrypted"
ROOT = "equivalent to root access to their nodes"
TLS = {"tls": {"secretName": "tls"}}


@pytest.mark.parametrize(
    ("values", "warnings"),
    [
        ({}, set()),
        ({"http": {"tokenReview": True}}, {OPEN_TOKENS, "also give access to the API server"}),
        ({"http": {"tokenSecretName": "token"}}, {OPEN_TOKENS}),
        ({"http": {"tokenReview": True, "tokenSecretName": "token", **TLS}}, set()),
        ({"nodeObject": {"npuAnnotation": True, "admissionPolicy": False}}, {OPEN_NODES}),
        ({"nodeObject": {"npuAnnotation": True}}, set()),
        ({"fleet": {"enabled": True, "auth": {"insecureNoAuth": True}}}, {OPEN_FLEET}),
        ({"fleet": {"enabled": True, "auth": {"tokensSecretName": "tokens"}}}, {OPEN_FLEET_TOKENS}),
        ({"fleet": {"enabled": True, "auth": {"tokensSecretName": "tokens"}, **TLS}}, set()),
        (
            {
                "fleet": {
                    "enabled": True,
                    "auth": {"tokenReviewCluster": "own"},
                    "ownCluster": {"exec": {"enabled": True}},
                    **TLS,
                }
            },
            {ROOT},
        ),
    ],
)
def test_insecure_settings_are_reported(
    notes: Callable[[dict[str, Any]], str], values: dict[str, Any], warnings: set[str]
) -> None:
    said = " ".join(notes(values).split())
    known = {
        OPEN_TOKENS,
        OPEN_NODES,
        "also give access to the API server",
        OPEN_FLEET,
        OPEN_FLEET_TOKENS,
        ROOT,
    }
    assert {each for each in known if each in said} == warnings


NEEDS_MONITOR = (
    "which a scrape job based on annotations does not send. Use a monitor (scrape.by, scrape.endpoint)"
)


@pytest.mark.parametrize(
    ("values", "is_said"),
    [
        ({}, False),
        ({"http": TLS}, False),
        ({"http": {"tokenSecretName": "token"}}, True),
        ({"http": {"tokenReview": True}}, True),
        ({"http": {"tls": {"secretName": "tls", "clientCASecretName": "ca"}}}, True),
        ({"http": {"tokenSecretName": "token"}, "scrape": {"by": "podMonitor"}}, False),
    ],
)
def test_scraping_by_annotations_with_authentication_is_reported(
    notes: Callable[[dict[str, Any]], str], values: dict[str, Any], is_said: bool
) -> None:
    assert (NEEDS_MONITOR in " ".join(notes(values).split())) is is_said


def test_page_url_has_scheme_and_port(notes: Callable[[dict[str, Any]], str]) -> None:
    assert "https://localhost:9410/" in notes({"http": {"port": 9410, **TLS}})


@pytest.mark.parametrize(
    ("others", "said"),
    [([], "The fleet reads 1 cluster."), ([{"id": "paris"}], "The fleet reads 2 clusters.")],
)
def test_number_of_clusters_of_the_fleet(
    notes: Callable[[dict[str, Any]], str], others: list[dict[str, Any]], said: str
) -> None:
    fleet = {"enabled": True, "auth": {"tokensSecretName": "tokens"}, "clusters": others}
    assert said in notes({"fleet": fleet})


def test_command_for_the_token_of_a_reader(notes: Callable[[dict[str, Any]], str]) -> None:
    said = notes({"fleetReader": {"enabled": True}})
    assert "kubectl get secret accelscope-fleet-reader-token -n metrics -o jsonpath='{.data.token}'" in said
    assert "accelscope-fleet-reader-token" not in notes(
        {"fleetReader": {"enabled": True, "tokenSecret": False}}
    )
