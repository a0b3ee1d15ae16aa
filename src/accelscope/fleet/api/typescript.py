"""TypeScript for the web page: the API's answers, made from the OpenAPI document, and the vendors' words."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from accelscope.fleet.api.openapi import REFERENCE, openapi
from accelscope.fleet.api.routes import ROUTES
from accelscope.vendors import declarations

_HEAD = "// Made from src/accelscope/fleet/api by `make docs`; a test compares them.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    schemas: Mapping[str, Any] = openapi(ROUTES, guarded=True)["components"]["schemas"]
    return _HEAD + "".join(f"\n{_declared(_named(name), schema)}" for name, schema in sorted(schemas.items()))


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
