"""Generated references of the API: the Markdown page, and the TypeScript types of the web page."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from accelscope.fleet.api.openapi import (
    INTRODUCTION,
    REFERENCE,
    TAGS,
    openapi,
    problem_texts,
    response_fields,
    sentence,
    type_text,
)
from accelscope.fleet.api.route import COMMON_PROBLEMS, ApiRoute, Parameter, schema
from accelscope.fleet.api.routes import ROUTES
from accelscope.vendors import declarations

_HEAD = """\
# Fleet API

<!-- Made from src/accelscope/fleet/api by `make docs`. Do not edit. -->

"""
_TYPES_HEAD = """
## Types

Any field can be null if its value is not known, except ids and counts.
"""


def reference(routes: tuple[ApiRoute, ...] = ROUTES) -> str:
    common = "".join(f"- {words}\n" for words in problem_texts(COMMON_PROBLEMS))
    parts = [_HEAD, INTRODUCTION, f"\nEvery route can return these problems:\n\n{common}"]
    types: dict[str, str] = {}
    for tag, text in TAGS.items():
        parts.append(f"\n## {tag.capitalize()}\n\n{text}.\n")
        for route in routes:
            if route.tag == tag:
                parts.append(_section(route))
                for name, fields in response_fields(route, routes):
                    rows = "".join(
                        f"| `{f.name}` | {_cell(f.type)} | {_cell(f.description)} |\n" for f in fields
                    )
                    types[name] = f"\n### {name}\n\n| field | type | meaning |\n|---|---|---|\n{rows}"
    parts.append(_TYPES_HEAD)
    parts += [types[name] for name in sorted(types)]
    return "".join(parts)


def _section(route: ApiRoute) -> str:
    parts = [f"\n### {route.method} {route.path}\n\n{route.summary}.\n"]
    if route.description:
        parts.append(f"\n{_wrapped(route.description)}\n")
    if route.parameters:
        parts.append("\n| parameter | type | meaning |\n|---|---|---|\n")
        parts += _rows(route.parameters)
    scope = f"Requires the scope `{route.scope}`." if route.scope is not None else "No token required."
    own = "".join(f"- {words}\n" for words in problem_texts(route.problems))
    parts.append(f"\n{scope}" + (f" Further problems:\n\n{own}" if own else "\n"))
    return "".join(parts)


def _rows(parameters: Sequence[Parameter]) -> Iterator[str]:
    """One row for a number with its `_min` and `_max`."""
    names = {parameter.name for parameter in parameters}
    for parameter in parameters:
        stem = parameter.name.removesuffix("_min").removesuffix("_max")
        spelled = [name for name in (stem, f"{stem}_min", f"{stem}_max") if name in names]
        if parameter.name == spelled[0]:
            yield _row(parameter, spelled)


def _row(parameter: Parameter, names: Sequence[str]) -> str:
    where = {"path": " (path)", "header": " (header)", "query": ""}[parameter.where]
    needed = " (required)" if parameter.required and parameter.where == "query" else ""
    default = f"; default {parameter.default:g}" if isinstance(parameter.default, int | float) else ""
    words = _cell(type_text(schema(parameter.kind)))
    shown = ", ".join(f"`{name}`" for name in names)
    return f"| {shown}{where}{needed} | {words}{default} | {_cell(sentence(parameter.description))} |\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- TypeScript -----------------------------------------------------------------


_TYPESCRIPT_HEAD = "// Made from src/accelscope/fleet/api by `make docs`. Do not edit.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    schemas: Mapping[str, Any] = openapi(ROUTES, guarded=True)["components"]["schemas"]
    return _TYPESCRIPT_HEAD + "".join(
        f"\n{_declared(_named(name), schema)}" for name, schema in sorted(schemas.items())
    )


def vendors() -> str:
    """Titles and throttle reasons of the vendors."""
    declared = declarations().values()
    titles = "".join(f"  {_quoted(vendor.name)}: {_quoted(vendor.title)},\n" for vendor in declared)
    harmless = [reason for vendor in declared for reason in vendor.harmless_throttles]
    faults = [reason for vendor in declared for reason in vendor.fault_throttles]
    return (
        "// Made from src/accelscope/vendors by `make docs`. Do not edit.\n"
        f"\nexport const VENDOR_TITLES: Record<string, string> = {{\n{titles}}};\n"
        "\n/** Throttle reasons that do not slow down any work. */\n"
        f"export const HARMLESS_THROTTLES: readonly string[] = {_listed(harmless)};\n"
        "\n/** Throttle reasons caused by heat or by the power supply. */\n"
        f"export const FAULT_THROTTLES: readonly string[] = {_listed(faults)};\n"
    )


def _quoted(text: str) -> str:
    return json.dumps(text)


def _listed(texts: Iterable[str]) -> str:
    return "[\n" + "".join(f"  {_quoted(text)},\n" for text in texts) + "]"


def _named(name: str) -> str:
    """`NodeRowPage` for `Page_NodeRow_`, the name of a generic type in msgspec."""
    return re.sub(r"^Page_(\w+)_$", r"\1Page", name)


def _declared(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    # Fields with a default are always sent, so no field is optional.
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
