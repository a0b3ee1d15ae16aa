"""The API's answers as TypeScript, for the web page: made from the OpenAPI document, so that both are one."""

import re
from collections.abc import Mapping
from typing import Any

from accelscope.fleet.api.openapi import REFERENCE, openapi
from accelscope.fleet.api.routes import ROUTES

_HEAD = "// Made from src/accelscope/fleet/api by `make docs`; a test compares them.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    schemas: Mapping[str, Any] = openapi(ROUTES, guarded=True)["components"]["schemas"]
    return _HEAD + "".join(f"\n{_declared(_named(name), schema)}" for name, schema in sorted(schemas.items()))


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
