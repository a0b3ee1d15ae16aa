"""Parameters of a route as data: how each is read, what is allowed, and what OpenAPI says of it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from accelscope.fleet.api.problem import Problem, ProblemKind

TEXT_LIMIT = 512  # characters; the longest name in Kubernetes has 253, a model's name less
WORDS_LIMIT = 64  # values of one parameter
_NAMED_LIMIT = 200  # names that a problem lists; all the routes have fewer


class BadText(ValueError):
    """What is wrong, completing "the parameter …"."""


class Kind(Protocol):
    def parse(self, texts: Sequence[str]) -> Any:
        """All values that the parameter was given with. Raises BadText."""

    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    kind: Kind
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False
    default: Any = None  # as a handler sees it when the parameter is not given


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    limit: int = TEXT_LIMIT
    words: tuple[str, ...] = ()  # empty: any text

    def parse(self, texts: Sequence[str]) -> str:
        return self.one(_single(texts))

    def one(self, text: str) -> str:
        if not text:
            raise BadText("is empty")
        if len(text) > self.limit:
            raise BadText(f"has more than {self.limit} characters")
        if self.words and text not in self.words:
            raise BadText(f"is not one of {', '.join(self.words)}")
        return text

    def schema(self) -> dict[str, Any]:
        if self.words:
            return {"type": "string", "enum": list(self.words)}
        return {"type": "string", "minLength": 1, "maxLength": self.limit}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    least: int = -(2**53)
    most: int = 2**53  # beyond it JSON numbers are not exact for everybody

    def parse(self, texts: Sequence[str]) -> int:
        return self.one(_single(texts))

    def one(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,17}", text, re.ASCII):
            raise BadText("is not a whole number")
        value = int(text)
        if not self.least <= value <= self.most:
            raise BadText(f"is not between {self.least} and {self.most}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    least: float | None = None
    most: float | None = None

    def parse(self, texts: Sequence[str]) -> float:
        return self.one(_single(texts))

    def one(self, text: str) -> float:
        if len(text) > 400 or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text, re.ASCII):
            raise BadText("is not a number")
        value = float(text)
        if not math.isfinite(value):
            raise BadText("is too large")
        if self.least is not None and value < self.least:
            raise BadText(f"is less than {self.least}")
        if self.most is not None and value > self.most:
            raise BadText(f"is more than {self.most}")
        return value

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number"}
        if self.least is not None:
            schema["minimum"] = self.least
        if self.most is not None:
            schema["maximum"] = self.most
        return schema


@dataclass(frozen=True, slots=True)
class Flag:
    def parse(self, texts: Sequence[str]) -> bool:
        text = _single(texts)
        if text not in ("true", "false"):
            raise BadText("is neither true nor false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """Values separated by commas (a comma within one is written `\\,`), or the parameter given repeatedly."""

    of: Text | Whole | Number
    limit: int = WORDS_LIMIT

    def parse(self, texts: Sequence[str]) -> tuple[Any, ...]:
        words = [word for text in texts for word in split_words(text)]
        if len(words) > self.limit:
            raise BadText(f"has more than {self.limit} values")
        return tuple(dict.fromkeys(self.of.one(word) for word in words))

    def schema(self) -> dict[str, Any]:
        item = self.of.schema()
        if isinstance(self.of, Text) and not self.of.words:
            item["pattern"] = r"^([^,\\]|\\.)+$"
        return {"type": "array", "items": item, "minItems": 1, "maxItems": self.limit}


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
        words[-1] += "\\"  # the last character: nothing that it could escape
    return words


def parse(
    parameters: Sequence[Parameter], path: Mapping[str, str], query: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The values of all parameters, the default for those not given. Raises Problem."""
    given: dict[str, list[str]] = {}
    for name, text in query:
        given.setdefault(name, []).append(text)
    known = tuple(parameter.name for parameter in parameters if parameter.where == "query")
    for name in given:
        if name not in known:
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise Problem(
                ProblemKind.BAD_PARAMETER,
                f"there is no parameter {shown!r} here",
                parameter=shown,
                allowed=known[:_NAMED_LIMIT],
            )
    values: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.where == "header":
            continue
        texts = [path[parameter.name]] if parameter.where == "path" else given.get(parameter.name)
        if texts is None:
            if parameter.required:
                raise _bad(parameter, "is needed")
            values[parameter.name] = parameter.default
            continue
        try:
            values[parameter.name] = parameter.kind.parse(texts)
        except BadText as error:
            raise _bad(parameter, str(error)) from None
    return values


def _bad(parameter: Parameter, what: str) -> Problem:
    words = _words(parameter.kind)
    return Problem(
        ProblemKind.BAD_PARAMETER,
        f"the parameter {parameter.name} {what}",
        parameter=parameter.name,
        allowed=words[:_NAMED_LIMIT],
    )


def _words(kind: Kind) -> tuple[str, ...]:
    if isinstance(kind, Several):
        return _words(kind.of)
    return kind.words if isinstance(kind, Text) else ()


def _single(texts: Sequence[str]) -> str:
    if len(texts) != 1:
        raise BadText("is given more than once")
    return texts[0]
