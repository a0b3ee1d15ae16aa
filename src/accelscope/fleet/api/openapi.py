"""The OpenAPI 3.1 document, from the declarations of the routes and the types of their answers."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import msgspec

from accelscope import __version__
from accelscope.config.values import List
from accelscope.fleet.api.access import TOKEN_HEADER
from accelscope.fleet.api.answering import NO_FRAMES
from accelscope.fleet.api.parameter import Parameter, schema
from accelscope.fleet.api.problem import MEDIA_TYPE, ProblemDocument, ProblemKind
from accelscope.fleet.api.route import COMMON_PROBLEMS, JSON, Document, Route
from accelscope.model import Snapshot
from accelscope.model.documentation import documentation, objects
from accelscope.vendors import declarations

REFERENCE = "#/components/schemas/"  # in front of a type's name

INTRODUCTION = """\
What every accelerator in a fleet of Kubernetes clusters is doing, and which pod is doing it.

What is not known is null, never 0. Ratios are 0 to 1, sizes bytes, times seconds since the epoch; only
`/gpu/*` speaks in percent and MB (bytes / 2^20), for those who come from another collector. Every row says
where it is from, how old it is and whether it is simulated.

Lists come in pages: `next` of an answer is the `cursor` of the next question. A token that is limited to some
clusters sees a fleet of those. An `ETag` is of the data, not of its age: a 304 says that nothing but
`age_seconds`, `at` and the like has changed; a filter by `age_seconds` has none. GET also answers HEAD.
Anything that is refused is a problem (RFC 9457); one with `Retry-After` goes away by itself.
"""

_VENDORS = [f"`{name}`" for name in declarations()]
_GPU_TITLES = " and ".join(vendor.title for vendor in declarations().values() if vendor.makes_gpus)
TAGS = {
    "fleet": "The whole of it: clusters, sums, what needs looking after",
    "tables": "Rows of nodes, devices, pods and processes: filtered, sorted, in pages",
    "time": "What was, and what happens",
    "gpu": f"{_GPU_TITLES} GPUs in the words of exec-based collectors: percent, MB, whole lists",
    "service": "The server itself",
}

# Fields that mean the same in every answer, where the type itself has no description of the field.
COMMON_FIELDS: Mapping[str, str] = {
    "age_seconds": "how old it is",
    "agent_version": "version of the agent that read it; null: no agent did",
    "cluster": "id of the cluster",
    "cluster_id": "id of the cluster",
    "container": "name of the container",
    "containers": "containers that hold or use a device",
    "device": "id of the device",
    "device_index": "number of the device on its node",
    "devices": "number of devices",
    "devices_allocated": "devices that its pods hold",
    "devices_idle": "sum of the shares of devices that are held and were not used for an hour or more",
    "devices_lost": "devices that fell off the bus or no longer answer",
    "devices_stale": "devices whose last reading is old",
    "driver_version": "version of the driver",
    "ecc_uncorrected": "memory errors that were not corrected; null: not known",
    "firmware_version": "version of the firmware",
    "gpu_count": "number of GPUs",
    "health": "`ok`, `warning`, `critical`, `lost` or `unknown`",
    "health_reason": "why it is not ok",
    "index": "number on its node, as the driver counts",
    "items": "the rows",
    "kind": "which kind of column it is",
    "model": "model, as the driver names it",
    "name": "name, for people",
    "namespace": "namespace of the pod",
    "node": "name of the node",
    "node_name": "name of the node",
    "nodes": "number of nodes",
    "owner_kind": "what the pod belongs to: Deployment, StatefulSet, Job …",
    "owner_name": "name of what the pod belongs to",
    "partition": "id of the partition (MIG, core range); null: the whole device",
    "partitions": "number of partitions",
    "pci_address": "`domain:bus:device.function`",
    "pcie_generation": "generation of the link now",
    "pcie_link_width": "lanes of the link now",
    "pcie_width": "lanes of the link now",
    "pid": "process id on the node",
    "pod": "name of the pod",
    "pod_uid": "uid of the pod",
    "pods": "number of pods",
    "power_draw_watts": "watts; null: not known",
    "power_limit_watts": "watts; null: not known",
    "power_watts": "watts; null: not known",
    "processes": "number of processes",
    "serial": "serial number",
    "simulated": "it comes from simulated devices, in whole or in part",
    "source": "the source that it was read from",
    "state": "`fresh` or `stale`",
    "taken_at": "when it was read, seconds since the epoch",
    "temperature_celsius": "°C; null: not known",
    "temperature_max_celsius": "°C, of the hottest; null: not known",
    "temperature_slowdown_celsius": "°C at which the device slows itself down; null: not known",
    "total": "how many there are in all",
    "unusual": "what is out of its own habit",
    "user": "whose it is on the node",
    "utilization_ratio": "0 to 1; null: not known",
    "uuid": "the vendor's unique id",
    "vendor": " or ".join(filter(None, (", ".join(_VENDORS[:-1]), _VENDORS[-1]))),
    "version": "version of AccelScope",
}


@cache
def _components(routes: tuple[Route, ...]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    types = [*(route.answer for route in routes if route.answer is not None), ProblemDocument]
    schemas, components = msgspec.json.schema_components(types, ref_template=f"{REFERENCE}{{name}}")
    _describe(components)
    return schemas, components


def _describe(components: Mapping[str, dict[str, Any]]) -> None:
    """Adds descriptions of fields that have none: from the objects of the snapshot, or the common ones."""
    of_snapshot = {kind.__name__: documentation(kind).fields for kind in objects(Snapshot)}
    for name, component in components.items():
        texts = of_snapshot.get(name, COMMON_FIELDS)
        for field, declared in component.get("properties", {}).items():
            if "description" not in declared and field in texts:
                declared["description"] = texts[field]


def answer_schemas(routes: Sequence[Route]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each route's answer by method and path, and the components that they refer to."""
    schemas, components = _components(tuple(routes))
    answered = [route for route in routes if route.answer is not None]
    named = {f"{route.method} {route.path}": schema for route, schema in zip(answered, schemas, strict=False)}
    return named, components


def openapi(routes: Sequence[Route], *, guarded: bool = True) -> dict[str, Any]:
    """`guarded`: the server asks for tokens."""
    schemas, components = answer_schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas.get(f"{route.method} {route.path}"), guarded)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AccelScope fleet",
            "version": __version__,
            "summary": "What every accelerator is doing, and which pod is doing it",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
            },
        },
    }


def operation_id(route: Route) -> str:
    words = route.path.replace("/api/v1", "").replace(".", "_").replace("-", "_").split("/")
    named = [f"by_{word[1:-1]}" if word.startswith("{") else word for word in words if word]
    return "_".join([route.method.lower(), *named])


def _operation(route: Route, schema: dict[str, Any] | None, guarded: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _responses(route, schema),
    }
    if route.description:
        operation["description"] = route.description
    if route.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in route.parameters]
    needs_token = guarded and route.scope is not None
    operation["security"] = [{"bearer": []}, {"header": []}] if needs_token else []
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = schema(parameter.kind)
    if parameter.default not in (None, ()):
        described["default"] = parameter.default
    made: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.description,
        "required": parameter.required or parameter.where == "path",
        "schema": described,
    }
    if isinstance(parameter.kind, List):
        made |= {"style": "form", "explode": False}
    return made


def _responses(route: Route, schema: dict[str, Any] | None) -> dict[str, Any]:
    content = {route.media_type.split(";", 1)[0]: {"schema": schema or {"type": "string"}}}
    if route.media_type == JSON and schema is None:
        content = {JSON: {"schema": {}}}
    success: dict[str, Any] = {"description": route.summary, "content": content}
    responses: dict[str, Any] = {str(route.status): success}
    if route.cached:
        success["headers"] = {"ETag": {"description": "of the data", "schema": {"type": "string"}}}
        responses["304"] = {"description": "nothing but ages has changed since the ETag that was shown"}
    by_status: dict[int, list[ProblemKind]] = {}
    for kind in route.all_problems:
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in by_status.items():
        responses[str(status)] = {
            "description": "; ".join(kind.title for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"{REFERENCE}ProblemDocument"}}},
            **_problem_headers(kinds),
        }
    return responses


def _problem_headers(kinds: Sequence[ProblemKind]) -> dict[str, Any]:
    status = kinds[0].status
    if status in (429, 503):
        return {"headers": {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}}
    if status == 401:
        return {"headers": {"WWW-Authenticate": {"schema": {"type": "string"}}}}
    return {}


# --- description ------------------------------------------------------------
# The types of answers and parameters in words, for pages that people read.


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    description: str


def answer_fields(route: Route, routes: tuple[Route, ...]) -> list[tuple[str, list[Field]]]:
    """The answer's type and those that it is made of, each with its fields; every type once."""
    schemas, components = answer_schemas(routes)
    schema = schemas.get(f"{route.method} {route.path}")
    if schema is None:
        return []
    found: dict[str, list[Field]] = {}
    waiting = _referred(schema)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        component = components[name]
        found[name] = [
            Field(field, type_words(of), sentence(of.get("description", "")))
            for field, of in component.get("properties", {}).items()
        ]
        waiting += _referred(component)
    return [(name, fields) for name, fields in found.items() if fields]


def sentence(text: str) -> str:
    """Words about a field or a parameter, written as those about a snapshot are: with a full stop, and with a
    capital unless they begin with `null`."""
    if not text:
        return text
    begun = text if text.startswith("null") else text[0].upper() + text[1:]
    return begun if begun.endswith((".", "…")) else f"{begun}."


def type_words(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words; null is not said, since nearly everything may be absent."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REFERENCE)
    if "anyOf" in schema:
        options = [type_words(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "enum" in schema:
        words = [str(word) for word in schema["enum"]]
        return ", ".join(words) if len(words) <= 16 else "names of fields"
    return _plain_words(schema)


def _plain_words(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array" and "prefixItems" in schema:
        return " and ".join(type_words(item) for item in schema["prefixItems"])
    if kind == "array":
        return f"list of {type_words(schema['items'])}" if "items" in schema else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_words(schema['additionalProperties'])}"
    if kind in ("integer", "number"):
        return _range(schema, "whole number" if kind == "integer" else "number")
    return {"string": "text", "boolean": "true or false"}.get(str(kind), "anything")


def problem_words(kinds: Iterable[ProblemKind]) -> list[str]:
    return [f"{kind.status} `{kind.uri}`: {kind.title}" for kind in kinds]


def _range(schema: dict[str, Any], words: str) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None or most is None or abs(least) >= 2**53:
        return words
    return f"{words}, {least} to {most}" if most < 2**53 else f"{words}, from {least}"


def _referred(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _referred(item)]
    if not isinstance(schema, dict):
        return []
    if "$ref" in schema:
        return [str(schema["$ref"]).removeprefix(REFERENCE)]
    return [name for value in schema.values() for name in _referred(value)]


# --- documents ------------------------------------------------------------
# The API's own description: the OpenAPI document and a page to read. They hold no data and are open.


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem 1.5rem 4rem; }
h1, h2, h3 { line-height: 1.25; }
h3 { margin-top: 2.5rem; border-top: 1px solid #8886; padding-top: 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid #8883; }
details { margin: .5rem 0; }
summary { cursor: pointer; }
nav ul { columns: 20rem; padding-left: 1rem; }
.method { font-weight: 700; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; {NO_FRAMES}"


def document_routes(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Both describe `routes`."""

    @cache
    def encoded(guarded: bool) -> bytes:
        return msgspec.json.encode(openapi(routes, guarded=guarded))

    @cache
    def page() -> bytes:
        return docs_page(routes).encode()

    return (
        Route(
            path="/openapi.json",
            summary="The OpenAPI 3.1 document",
            tag="service",
            answer=None,
            handle=lambda call: Document([encoded(call.fleet.guarded)]),
            scope=None,
        ),
        Route(
            path="/docs",
            summary="This description as a page",
            tag="service",
            answer=None,
            media_type="text/html; charset=utf-8",
            handle=lambda _: Document([page()]),
            scope=None,
            content_security_policy=PAGE_POLICY,
        ),
    )


def docs_page(routes: tuple[Route, ...]) -> str:
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>AccelScope fleet API</title>",
        f"<style>{STYLE}</style></head><body><h1>AccelScope fleet API</h1>",
        "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in INTRODUCTION.strip().split("\n\n")),
        "<p><a href='openapi.json'>openapi.json</a></p>",
        f"<details><summary>Problems of every route</summary>{_problems(COMMON_PROBLEMS)}</details><nav>",
    ]
    for tag, text in TAGS.items():
        links = "".join(
            f"<li><a href='#{_anchor(route)}'>{escape(_shown(route))}</a></li>"
            for route in routes
            if route.tag == tag
        )
        parts.append(f"<h2>{escape(tag)}</h2><p>{_prose(text)}</p><ul>{links}</ul>")
    parts.append("</nav>")
    parts += [_section(route, routes) for tag in TAGS for route in routes if route.tag == tag]
    parts.append("</body></html>")
    return "".join(parts)


def _section(route: Route, routes: tuple[Route, ...]) -> str:
    scope = f"Scope: <code>{route.scope}</code>." if route.scope is not None else "Open to everybody."
    parts = [
        f"<h3 id='{_anchor(route)}'><span class=method>{route.method}</span> ",
        f"<code>{escape(route.path)}</code></h3><p>{_prose(route.summary)}.</p>",
        f"<p>{_prose(route.description)}</p>" if route.description else "",
        f"<p>{scope} Answer: <code>{escape(route.media_type)}</code></p>",
    ]
    if route.parameters:
        rows = "".join(_parameter_row(parameter) for parameter in route.parameters)
        parts.append(
            f"<details><summary>{len(route.parameters)} parameters</summary><table>{rows}</table></details>"
        )
    for name, fields in answer_fields(route, routes):
        rows = "".join(_field_row(field) for field in fields)
        parts.append(f"<details><summary>Fields of {escape(name)}</summary><table>{rows}</table></details>")
    if route.problems:
        parts.append(f"<p>Problems of its own:</p>{_problems(route.problems)}")
    return "".join(parts)


def _problems(kinds: Iterable[ProblemKind]) -> str:
    return f"<ul>{''.join(f'<li>{_prose(words)}</li>' for words in problem_words(kinds))}</ul>"


def _parameter_row(parameter: Parameter) -> str:
    needed = " (needed)" if parameter.required else ""
    where = "" if parameter.where == "query" else f" in the {parameter.where}"
    return (
        f"<tr><td><code>{escape(parameter.name)}</code>{needed}{where}</td>"
        f"<td>{escape(type_words(schema(parameter.kind)))}</td>"
        f"<td>{_prose(sentence(parameter.description))}</td></tr>"
    )


def _field_row(field: Field) -> str:
    return (
        f"<tr><td><code>{escape(field.name)}</code></td><td>{escape(field.type)}</td>"
        f"<td>{_prose(field.description)}</td></tr>"
    )


def _shown(route: Route) -> str:
    return route.path if route.method == "GET" else f"{route.method} {route.path}"


def _anchor(route: Route) -> str:
    return "".join(c if c.isalnum() else "-" for c in f"{route.method.lower()}{route.path}").strip("-")


def _prose(text: str) -> str:
    """Back quotes are code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
