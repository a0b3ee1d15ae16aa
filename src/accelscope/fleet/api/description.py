"""The types of answers and parameters in words, for pages that people read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from accelscope.fleet.api.openapi import REFERENCE, answer_schemas
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import Route


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
