"""The OpenAPI 3.1 document and the page `/docs`, made from the routes and the types of their responses."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import msgspec

from accelscope import __version__
from accelscope.config.values import List
from accelscope.fleet.api.access import TOKEN_HEADER
from accelscope.fleet.api.gpu import Gpu, GpuProcess
from accelscope.fleet.api.problem import MEDIA_TYPE, ProblemDocument, ProblemKind
from accelscope.fleet.api.request_handler import NO_FRAMES
from accelscope.fleet.api.route import COMMON_PROBLEMS, JSON, ApiRoute, EncodedResponse, Parameter, schema
from accelscope.fleet.api.summary import IdlePod
from accelscope.fleet.rows import DeviceRow, PodRow, ProcessRow
from accelscope.model import AgentState, Device, Owner, Pcie, Pod, PodUsage, Process, Snapshot
from accelscope.model.documentation import Documentation, documentation, objects
from accelscope.vendors import declarations

REFERENCE = "#/components/schemas/"  # precedes the name of a type
_MARKDOWN_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")

INTRODUCTION = """\
What every accelerator in a fleet of Kubernetes clusters is doing, and which pod is using it.

Unknown values are null, never 0. Ratios are 0 to 1, sizes are bytes, times are seconds since the epoch. Only
`/gpu/*` uses percent and MB (bytes / 2^20), for clients of exec-based collectors. Every row contains its
source, its age and whether it is simulated.

Lists are paged: pass `next` of a response as `cursor` of the next request. A token limited to some clusters
sees only those. An `ETag` covers the data, not its age: 304 means that only `age_seconds`, `at` and similar
fields have changed. Requests that filter by `age_seconds` get no ETag. Routes that accept GET also accept
HEAD. Errors are problem details (RFC 9457); retry those that have `Retry-After`.
"""

_GPU_TITLES = " and ".join(vendor.title for vendor in declarations().values() if vendor.makes_gpus)
TAGS = {
    "fleet": "Clusters, sums, unhealthy and idle devices",
    "tables": "Nodes, devices, pods and processes: filtered, sorted and paged",
    "time": "History and events",
    "gpu": f"{_GPU_TITLES} GPUs in the format of exec-based collectors: percent, MB, complete lists",
    "service": "The server itself",
}

# The model objects that a type takes the descriptions of its fields from, the first match counts.
_MODEL_TYPES: Mapping[type[Any], tuple[type[Any], ...]] = {
    DeviceRow: (Device,),
    PodRow: (PodUsage, Pod, Device),
    ProcessRow: (Process, Owner),
    IdlePod: (PodUsage, Pod),
    Gpu: (Device,),
    GpuProcess: (Process, Owner),
}

# Fields that the model has under another name or in another object.
MODEL_FIELDS: Mapping[str, tuple[type[Any], str]] = {
    "agent_version": (AgentState, "version"),
    "pcie_generation": (Pcie, "generation"),
    "pcie_link_width": (Pcie, "width"),
    "pcie_width": (Pcie, "width"),
    "power_draw_watts": (Device, "power_watts"),
    "taken_at": (Snapshot, "taken_at"),
    "version": (AgentState, "version"),
}

_NULLS = {"agent_version": "not read by an agent"}

# Fields that mean the same in every response and that the model does not describe.
COMMON_FIELDS: Mapping[str, str] = {
    "age_seconds": "time since the data was read",
    "cluster": "id of the cluster",
    "cluster_id": "id of the cluster",
    "containers": "number of containers that use a device or have one allocated",
    "devices": "number of devices",
    "devices_allocated": "number of devices allocated to its pods",
    "devices_idle": "allocated devices that were not used for an hour or more, as a sum of device shares",
    "devices_lost": "number of devices that fell off the bus or do not respond",
    "devices_stale": "number of devices whose last reading is old",
    "gpu_count": "number of GPUs",
    "health_reason": "why the health is not `ok`",
    "health_action": "what to do first if the health is not `ok`",
    "items": "the rows of this page",
    "kind": "type of the column",
    "name": "display name",
    "namespace": "name of the namespace",
    "node": "name of the node",
    "node_name": "name of the node",
    "nodes": "number of nodes",
    "pod": "name of the pod",
    "pods": "number of pods",
    "processes": "number of processes",
    "simulated": "true: some or all of the data comes from simulated devices",
    "source": "where the data comes from: `agents`, `exec`, `annotations` or `prometheus`",
    "state": "`fresh` or `stale`",
    "temperature_max_celsius": "highest temperature of its devices",
    "total": "number of items",
    "unusual": "what differs from the usual behaviour; null: nothing does",
    "utilization_ratio": "mean over its devices",
}


@cache
def _components(routes: tuple[ApiRoute, ...]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    types = [*(route.response for route in routes if route.response is not None), ProblemDocument]
    schemas, components = msgspec.json.schema_components(types, ref_template=f"{REFERENCE}{{name}}")
    _describe(components)
    return schemas, components


def _describe(components: Mapping[str, dict[str, Any]]) -> None:
    """Adds the descriptions that are written in the model or common to all types, and makes all of them
    sentences."""
    model_types: dict[str, tuple[type[Any], ...]] = {kind.__name__: (kind,) for kind in objects(Snapshot)}
    model_types |= {kind.__name__: models for kind, models in _MODEL_TYPES.items()}
    for name, component in components.items():
        documented = [documentation(kind) for kind in model_types.get(name, ())]
        for field, declared in component.get("properties", {}).items():
            text = declared.get("description") or _model_text(documented, field, declared)
            text = text or COMMON_FIELDS.get(field) or _renamed_text(field)
            if text:
                declared["description"] = sentence(text)


def _model_text(documented: Sequence[Documentation], field: str, declared: Mapping[str, Any]) -> str | None:
    for model in documented:
        if field in model.fields:
            text = _MARKDOWN_LINK.sub(r"\1", model.fields[field])
            nullable = {"type": "null"} in declared.get("anyOf", ())
            return f"{text} Null: {model.absent[field]}." if nullable and field in model.absent else text
    return None


def _renamed_text(field: str) -> str | None:
    if field not in MODEL_FIELDS:
        return None
    kind, name = MODEL_FIELDS[field]
    null = f" Null: {_NULLS[field]}." if field in _NULLS else ""
    return documentation(kind).fields[name] + null


def response_schemas(routes: Sequence[ApiRoute]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each route's response by method and path, and the components that they reference."""
    schemas, components = _components(tuple(routes))
    with_response = [route for route in routes if route.response is not None]
    named = {
        f"{route.method} {route.path}": schema for route, schema in zip(with_response, schemas, strict=False)
    }
    return named, components


def openapi(routes: Sequence[ApiRoute], *, guarded: bool = True) -> dict[str, Any]:
    """`guarded`: the server requires tokens."""
    schemas, components = response_schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas.get(f"{route.method} {route.path}"), guarded)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AccelScope fleet",
            "version": __version__,
            "summary": "What every accelerator is doing, and which pod is using it",
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


def operation_id(route: ApiRoute) -> str:
    words = route.path.replace("/api/v1", "").replace(".", "_").replace("-", "_").split("/")
    named = [f"by_{word[1:-1]}" if word.startswith("{") else word for word in words if word]
    return "_".join([route.method.lower(), *named])


def _operation(route: ApiRoute, schema: dict[str, Any] | None, guarded: bool) -> dict[str, Any]:
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
        "description": sentence(parameter.description),
        "required": parameter.required or parameter.where == "path",
        "schema": described,
    }
    if isinstance(parameter.kind, List):
        made |= {"style": "form", "explode": False}
    return made


def _responses(route: ApiRoute, schema: dict[str, Any] | None) -> dict[str, Any]:
    content = {route.media_type.split(";", 1)[0]: {"schema": schema or {"type": "string"}}}
    if route.media_type == JSON and schema is None:
        content = {JSON: {"schema": {}}}
    success: dict[str, Any] = {"description": route.summary, "content": content}
    responses: dict[str, Any] = {str(route.status): success}
    if route.cached:
        success["headers"] = {"ETag": {"description": "Version of the data", "schema": {"type": "string"}}}
        responses["304"] = {"description": "Only ages have changed since this ETag"}
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
        return {"headers": {"Retry-After": {"description": "Seconds", "schema": {"type": "string"}}}}
    if status == 401:
        return {"headers": {"WWW-Authenticate": {"schema": {"type": "string"}}}}
    return {}


# --- Types as text, for the reference pages ----------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    description: str


def response_fields(route: ApiRoute, routes: tuple[ApiRoute, ...]) -> list[tuple[str, list[Field]]]:
    """The types that the response consists of, each once with its fields."""
    schemas, components = response_schemas(routes)
    schema = schemas.get(f"{route.method} {route.path}")
    if schema is None:
        return []
    found: dict[str, list[Field]] = {}
    waiting = _references(schema)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        component = components[name]
        found[name] = [
            Field(field, type_text(declared), declared.get("description", ""))
            for field, declared in component.get("properties", {}).items()
        ]
        waiting += _references(component)
    return [(name, fields) for name, fields in found.items() if fields]


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with `null`, and a full stop."""
    if not text:
        return text
    begun = text if text.startswith("null") else text[0].upper() + text[1:]
    return begun if begun.endswith((".", "…")) else f"{begun}."


def type_text(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words, without null: nearly every field may be null."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REFERENCE)
    if "anyOf" in schema:
        options = [type_text(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "enum" in schema:
        words = [str(word) for word in schema["enum"]]
        return ", ".join(words) if len(words) <= 16 else "names of fields"
    return _simple_type_text(schema)


def _simple_type_text(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array" and "prefixItems" in schema:
        return " and ".join(type_text(item) for item in schema["prefixItems"])
    if kind == "array":
        return f"list of {type_text(schema['items'])}" if "items" in schema else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_text(schema['additionalProperties'])}"
    if kind in ("integer", "number"):
        return _range(schema, "whole number" if kind == "integer" else "number")
    return {"string": "text", "boolean": "true or false"}.get(str(kind), "anything")


def problem_texts(kinds: Iterable[ProblemKind]) -> list[str]:
    return [f"{kind.status} `{kind.uri}`: {kind.title}" for kind in kinds]


def _range(schema: dict[str, Any], words: str) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None or most is None or abs(least) >= 2**53:
        return words
    return f"{words}, {least} to {most}" if most < 2**53 else f"{words}, from {least}"


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    if "$ref" in schema:
        return [str(schema["$ref"]).removeprefix(REFERENCE)]
    return [name for value in schema.values() for name in _references(value)]


# --- Routes of the documents. They contain no data and need no token. ---------


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


def document_routes(routes: tuple[ApiRoute, ...]) -> tuple[ApiRoute, ...]:
    """The routes of the OpenAPI document and of the page, which describe `routes`."""

    @cache
    def encoded(guarded: bool) -> bytes:
        return msgspec.json.encode(openapi(routes, guarded=guarded))

    @cache
    def page() -> bytes:
        return docs_page(routes).encode()

    return (
        ApiRoute(
            path="/openapi.json",
            summary="The OpenAPI 3.1 document",
            tag="service",
            response=None,
            handle=lambda call: EncodedResponse([encoded(call.fleet.guarded)]),
            scope=None,
        ),
        ApiRoute(
            path="/docs",
            summary="The API reference as a web page",
            tag="service",
            response=None,
            media_type="text/html; charset=utf-8",
            handle=lambda _: EncodedResponse([page()]),
            scope=None,
            content_security_policy=PAGE_POLICY,
        ),
    )


def docs_page(routes: tuple[ApiRoute, ...]) -> str:
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>AccelScope fleet API</title>",
        f"<style>{STYLE}</style></head><body><h1>AccelScope fleet API</h1>",
        "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in INTRODUCTION.strip().split("\n\n")),
        "<p><a href='openapi.json'>openapi.json</a></p>",
        "<details><summary>Problems that every route can return</summary>",
        f"{_problems(COMMON_PROBLEMS)}</details><nav>",
    ]
    for tag, text in TAGS.items():
        links = "".join(
            f"<li><a href='#{_anchor(route)}'>{escape(_title(route))}</a></li>"
            for route in routes
            if route.tag == tag
        )
        parts.append(f"<h2>{escape(tag)}</h2><p>{_prose(text)}</p><ul>{links}</ul>")
    parts.append("</nav>")
    parts += [_section(route, routes) for tag in TAGS for route in routes if route.tag == tag]
    parts.append("</body></html>")
    return "".join(parts)


def _section(route: ApiRoute, routes: tuple[ApiRoute, ...]) -> str:
    scope = f"Scope: <code>{route.scope}</code>." if route.scope is not None else "No token required."
    parts = [
        f"<h3 id='{_anchor(route)}'><span class=method>{route.method}</span> ",
        f"<code>{escape(route.path)}</code></h3><p>{_prose(route.summary)}.</p>",
        f"<p>{_prose(route.description)}</p>" if route.description else "",
        f"<p>{scope} Response: <code>{escape(route.media_type)}</code></p>",
    ]
    if route.parameters:
        rows = "".join(_parameter_row(parameter) for parameter in route.parameters)
        parts.append(
            f"<details><summary>{len(route.parameters)} parameters</summary><table>{rows}</table></details>"
        )
    for name, fields in response_fields(route, routes):
        rows = "".join(_field_row(field) for field in fields)
        parts.append(f"<details><summary>Fields of {escape(name)}</summary><table>{rows}</table></details>")
    if route.problems:
        parts.append(f"<p>Further problems:</p>{_problems(route.problems)}")
    return "".join(parts)


def _problems(kinds: Iterable[ProblemKind]) -> str:
    return f"<ul>{''.join(f'<li>{_prose(words)}</li>' for words in problem_texts(kinds))}</ul>"


def _parameter_row(parameter: Parameter) -> str:
    needed = " (required)" if parameter.required else ""
    where = "" if parameter.where == "query" else f" in the {parameter.where}"
    return (
        f"<tr><td><code>{escape(parameter.name)}</code>{needed}{where}</td>"
        f"<td>{escape(type_text(schema(parameter.kind)))}</td>"
        f"<td>{_prose(sentence(parameter.description))}</td></tr>"
    )


def _field_row(field: Field) -> str:
    return (
        f"<tr><td><code>{escape(field.name)}</code></td><td>{escape(field.type)}</td>"
        f"<td>{_prose(field.description)}</td></tr>"
    )


def _title(route: ApiRoute) -> str:
    return route.path if route.method == "GET" else f"{route.method} {route.path}"


def _anchor(route: ApiRoute) -> str:
    return "".join(c if c.isalnum() else "-" for c in f"{route.method.lower()}{route.path}").strip("-")


def _prose(text: str) -> str:
    """HTML of a text in which back quotes mark code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
