"""Parameters of a route as data: parsing, allowed values, and the JSON Schema for OpenAPI."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from accelscope.config.values import BadValue, Boolean, Choice, List, Number, ValueKind, WholeNumber
from accelscope.fleet.api.problem import Problem, ProblemKind

TEXT_LIMIT = 512  # characters; the longest name in Kubernetes has 253
WORDS_LIMIT = 64  # values of one parameter
_ALLOWED_LIMIT = 200  # names that a problem lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    kind: ValueKind[Any]
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False
    default: Any = None  # value if the parameter is missing


class BoundedText(ValueKind[str]):
    def __init__(self, limit: int = TEXT_LIMIT) -> None:
        self.limit = limit
        self.allowed = f"text of 1 to {limit} characters"

    def parse(self, text: str) -> str:
        if not 1 <= len(text) <= self.limit:
            raise BadValue
        return text


class Flag(Boolean):
    """Only the JSON spelling, not the others that settings allow."""

    allowed = "true or false"

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise BadValue
        return text == "true"


TEXT = BoundedText()
FLAG = Flag()
WHOLE = WholeNumber(-(2**53), 2**53)  # the range in which every JSON parser is exact


def one_of(words: Sequence[str]) -> ValueKind[str]:
    """Any text if `words` is empty."""
    return Choice(*words) if words else TEXT


def several(item: ValueKind[Any], limit: int = WORDS_LIMIT) -> List[Any]:
    """Values separated by commas (`\\,` is a comma within a value); the parameter can also be repeated."""
    return List(item, limit)


def schema(kind: ValueKind[Any]) -> dict[str, Any]:
    """JSON Schema, for OpenAPI."""
    if isinstance(kind, List):
        item = schema(kind.item)
        if isinstance(kind.item, BoundedText):
            item["pattern"] = r"^([^,\\]|\\.)+$"
        return {"type": "array", "items": item, "minItems": 1, "maxItems": kind.most}
    if isinstance(kind, BoundedText):
        return {"type": "string", "minLength": 1, "maxLength": kind.limit}
    if isinstance(kind, Choice):
        return {"type": "string", "enum": list(kind.choices)}
    if isinstance(kind, Number):
        bounds = {"minimum": kind.minimum, "maximum": kind.maximum}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        return {"type": "integer" if isinstance(kind, WholeNumber) else "number", **given}
    return {"type": "boolean"}


def split_words(text: str) -> list[str]:
    words, escaped = [""], False
    for character in text:
        if escaped or character not in ",\\":
            words[-1] += character
            escaped = False
        elif character == ",":
            words.append("")
        else:
            escaped = True
    if escaped:
        words[-1] += "\\"  # a trailing backslash escapes nothing
    return words


def parse(
    parameters: Sequence[Parameter], path: Mapping[str, str], query: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The values of all parameters, defaults included. Raises Problem."""
    given: dict[str, list[str]] = {}
    for name, text in query:
        given.setdefault(name, []).append(text)
    known = tuple(parameter.name for parameter in parameters if parameter.where == "query")
    for name in given:
        if name not in known:
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise Problem(
                ProblemKind.BAD_PARAMETER,
                f"unknown parameter {shown!r}",
                parameter=shown,
                allowed=known[:_ALLOWED_LIMIT],
            )
    values: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.where == "header":
            continue
        texts = [path[parameter.name]] if parameter.where == "path" else given.get(parameter.name)
        if texts is None:
            if parameter.required:
                raise _bad(parameter, "missing")
            values[parameter.name] = parameter.default
            continue
        try:
            values[parameter.name] = _value(parameter.kind, texts)
        except BadValue as error:
            raise _bad(parameter, str(error)) from None
    return values


def _bad(parameter: Parameter, what: str) -> Problem:
    words = _words(parameter.kind)
    return Problem(
        ProblemKind.BAD_PARAMETER,
        f"{parameter.name}: {what}",
        parameter=parameter.name,
        allowed=words[:_ALLOWED_LIMIT],
    )


def _words(kind: ValueKind[Any]) -> tuple[str, ...]:
    if isinstance(kind, List):
        return _words(kind.item)
    return tuple(map(str, kind.choices)) if isinstance(kind, Choice) else ()


def _value(kind: ValueKind[Any], texts: Sequence[str]) -> Any:
    if isinstance(kind, List):
        return kind.read([word for text in texts for word in split_words(text)])
    if len(texts) != 1:
        raise BadValue("specified more than once")
    return kind.read(texts[0])
