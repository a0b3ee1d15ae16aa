"""The reference page of the API in Markdown, from the declarations of its routes."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from accelscope.fleet.api.openapi import (
    INTRODUCTION,
    REFERENCE,
    TAGS,
    answer_fields,
    openapi,
    problem_words,
    sentence,
    type_words,
)
from accelscope.fleet.api.parameter import Parameter, schema
from accelscope.fleet.api.route import COMMON_PROBLEMS, Route
from accelscope.fleet.api.routes import ROUTES
from accelscope.vendors import declarations

_HEAD = """\
# The fleet's API

<!-- Made from src/accelscope/fleet/api by `make docs`; a test compares them. -->

"""
_TYPES_HEAD = """
## Types

What answers are made of. Anything may be null where it is not known, except ids and counts.
"""


def reference(routes: tuple[Route, ...] = ROUTES) -> str:
    common = "".join(f"- {words}\n" for words in problem_words(COMMON_PROBLEMS))
    parts = [_HEAD, INTRODUCTION, f"\nEvery route may answer with:\n\n{common}"]
    types: dict[str, str] = {}
    for tag, text in TAGS.items():
        parts.append(f"\n## {tag.capitalize()}\n\n{text}.\n")
        for route in routes:
            if route.tag == tag:
                parts.append(_section(route))
                for name, fields in answer_fields(route, routes):
                    rows = "".join(
                        f"| `{f.name}` | {_cell(f.type)} | {_cell(f.description)} |\n" for f in fields
                    )
                    types[name] = f"\n### {name}\n\n| field | type | meaning |\n|---|---|---|\n{rows}"
    parts.append(_TYPES_HEAD)
    parts += [types[name] for name in sorted(types)]
    return "".join(parts)


def _section(route: Route) -> str:
    parts = [f"\n### {route.method} {route.path}\n\n{route.summary}.\n"]
    if route.description:
        parts.append(f"\n{route.description}\n")
    if route.parameters:
        parts.append("\n| parameter | type | meaning |\n|---|---|---|\n")
        parts += _rows(route.parameters)
    scope = f"Needs the scope `{route.scope}`." if route.scope is not None else "Open to everybody."
    own = "".join(f"- {words}\n" for words in problem_words(route.problems))
    parts.append(f"\n{scope}" + (f" Problems of its own:\n\n{own}" if own else "\n"))
    return "".join(parts)


def _rows(parameters: Sequence[Parameter]) -> Iterator[str]:
    """A number and its least and most are one row."""
    names = {parameter.name for parameter in parameters}
    for parameter in parameters:
        stem = parameter.name.removesuffix("_min").removesuffix("_max")
        spelled = [name for name in (stem, f"{stem}_min", f"{stem}_max") if name in names]
        if parameter.name == spelled[0]:
            yield _row(parameter, spelled)


def _row(parameter: Parameter, names: Sequence[str]) -> str:
    where = {"path": " (in the path)", "header": " (a header)", "query": ""}[parameter.where]
    needed = " (needed)" if parameter.required and parameter.where == "query" else ""
    default = f"; default {parameter.default:g}" if isinstance(parameter.default, int | float) else ""
    words = _cell(type_words(schema(parameter.kind)))
    shown = ", ".join(f"`{name}`" for name in names)
    return f"| {shown}{where}{needed} | {words}{default} | {_cell(sentence(parameter.description))} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- typescript ------------------------------------------------------------
# TypeScript for the web page: the API's answers, made from the OpenAPI document, and the vendors' words.


_TYPESCRIPT_HEAD = "// Made from src/accelscope/fleet/api by `make docs`; a test compares them.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    schemas: Mapping[str, Any] = openapi(ROUTES, guarded=True)["components"]["schemas"]
    return _TYPESCRIPT_HEAD + "".join(
        f"\n{_declared(_named(name), schema)}" for name, schema in sorted(schemas.items())
    )


def vendors() -> str:
    """Titles and throttle reasons, as the vendors declare them."""
    declared = declarations().values()
    titles = "".join(f"  {_quoted(vendor.name)}: {_quoted(vendor.title)},\n" for vendor in declared)
    harmless = [reason for vendor in declared for reason in vendor.harmless_throttles]
    faults = [reason for vendor in declared for reason in vendor.fault_throttles]
    return (
        "// Made from src/accelscope/vendors by `make docs`; a test compares them.\n"
        f"\nexport const VENDOR_TITLES: Record<string, string> = {{\n{titles}}};\n"
        "\n/** Reasons for a lower clock that slow no work down. */\n"
        f"export const HARMLESS_THROTTLES: readonly string[] = {_listed(harmless)};\n"
        "\n/** Reasons by which heat or the power supply forces a device. */\n"
        f"export const FAULT_THROTTLES: readonly string[] = {_listed(faults)};\n"
    )


def _quoted(text: str) -> str:
    return json.dumps(text)


def _listed(texts: Iterable[str]) -> str:
    return "[\n" + "".join(f"  {_quoted(text)},\n" for text in texts) + "]"


def _named(name: str) -> str:
    """`Page_NodeRow_` is a name that only a program would give."""
    return re.sub(r"^Page_(\w+)_$", r"\1Page", name)


def _declared(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    # Answers hold every field that they have: what may be left out has a default, and is sent all the same.
    lines = [
        f"{_comment(field)}  {key}: {_type(field)};\n" for key, field in sorted(schema["properties"].items())
    ]
    return f"export interface {name} {{\n{''.join(lines)}}}\n"


def _comment(field: Mapping[str, Any]) -> str:
    text = field.get("description")
    return f"  /** {text} */\n" if text else ""


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _named(schema["$ref"].removeprefix(REFERENCE))
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    match schema["type"]:
        case "array":
            return _array(schema)
        case "object":
            return f"Record<string, {_type(schema['additionalProperties'])}>"
        case plain:
            return _PLAIN[plain]


def _array(schema: Mapping[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    inner = _type(schema["items"])
    return f"({inner})[]" if "|" in inner else f"{inner}[]"
