"""The reference pages of the API are generated from its routes and types."""

import re

from accelscope.fleet.api.access import TOKEN_HEADER
from accelscope.fleet.api.openapi import COMMON_FIELDS, MODEL_FIELDS, docs_page, openapi, sentence
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.reference import reference
from accelscope.fleet.api.routes import ROUTES
from accelscope.model.documentation import documentation


def test_the_reference_has_every_route_with_its_parameters_and_problems() -> None:
    page = reference()
    sections = dict(re.findall(r"^### (?:GET|POST) (\S+)$(.*?)(?=^##)", page, re.MULTILINE | re.DOTALL))
    for route in ROUTES:
        assert route.path in sections
        for parameter in route.parameters:
            assert f"`{parameter.name}`" in sections[route.path]
        for problem in route.problems:
            assert problem.uri in sections[route.path]


def test_the_reference_describes_the_types_of_responses() -> None:
    page = reference()
    for name in ("GpuNode", "DeviceRow", "SummaryRow", "HistorySeries", "ClusterView", "Device", "IdlePod"):
        assert f"### {name}\n" in page


def test_every_field_of_a_response_has_a_description() -> None:
    without = [
        f"{name}.{field}"
        for name, component in openapi(ROUTES)["components"]["schemas"].items()
        for field, schema in component.get("properties", {}).items()
        if not schema.get("description")
    ]
    assert without == []


def test_every_meaning_in_the_reference_is_a_sentence() -> None:
    meanings = re.findall(r"^\| `.+ \| (.+) \|$", reference(), re.MULTILINE)
    assert len(meanings) > 500
    for meaning in meanings:
        assert meaning[-1] in ".…", meaning
        assert not meaning[0].islower() or meaning.startswith("null"), meaning


def test_every_common_description_is_used() -> None:
    described = {
        (field, schema["description"])
        for component in openapi(ROUTES)["components"]["schemas"].values()
        for field, schema in component.get("properties", {}).items()
    }
    assert {(field, sentence(text)) for field, text in COMMON_FIELDS.items()} <= described


def test_a_field_that_the_model_has_under_another_name_is_described_by_the_model() -> None:
    described: dict[str, list[str]] = {}
    for component in openapi(ROUTES)["components"]["schemas"].values():
        for field, schema in component.get("properties", {}).items():
            described.setdefault(field, []).append(schema["description"])
    for field, (kind, name) in MODEL_FIELDS.items():
        text = documentation(kind).fields[name]
        assert any(each.startswith(text) for each in described[field]), field
    assert COMMON_FIELDS.keys().isdisjoint(MODEL_FIELDS)


def test_the_page_has_no_scripts_and_no_broken_links() -> None:
    page = docs_page(ROUTES)
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    for target in re.findall(r"href='#([^']+)'", page):
        assert f"id='{target}'" in page


def test_the_document_requires_tokens_only_if_the_server_does() -> None:
    guarded, unguarded = openapi(ROUTES), openapi(ROUTES, guarded=False)
    assert guarded["paths"]["/api/v1/nodes"]["get"]["security"] == [{"bearer": []}, {"header": []}]
    assert guarded["paths"]["/healthz"]["get"]["security"] == []
    assert unguarded["paths"]["/api/v1/nodes"]["get"]["security"] == []
    assert guarded["components"]["securitySchemes"]["header"]["name"] == TOKEN_HEADER


def test_every_problem_that_a_client_can_cause_is_documented() -> None:
    documented = {kind for route in ROUTES for kind in route.all_problems}
    assert set(ProblemKind) - documented == {ProblemKind.INTERNAL, ProblemKind.METHOD_NOT_ALLOWED}
