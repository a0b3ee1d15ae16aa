"""Reads the descriptions of objects and fields from the source of their dataclasses.

A string below a field describes that field. Python drops such strings when it compiles, so they use no memory
in a running agent. The reference pages and the OpenAPI document are generated from them.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

_ABSENT = " Absent: "  # begins an optional last sentence: when the field is absent


@dataclass(frozen=True, slots=True)
class Documentation:
    about: str
    fields: Mapping[str, str]
    absent: Mapping[str, str]  # name of a field -> when it is absent


def documentation(kind: type[Any]) -> Documentation:
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    about = " ".join((ast.get_docstring(definition) or "").split())
    fields: dict[str, str] = {}
    absent: dict[str, str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                fields[name], marked, when = " ".join(text.split()).partition(_ABSENT)
                if marked:
                    absent[name] = when.removesuffix(".")
    return Documentation(about, fields, absent)


def objects(kind: type[Any]) -> list[type[Any]]:
    """The dataclass and all dataclasses nested in it, each once."""
    found = {kind: None}
    for hint in get_type_hints(kind).values():
        if is_dataclass(inner := _inner(hint)):
            found |= dict.fromkeys(objects(inner))  # type: ignore[arg-type]
    return list(found)


def _inner(hint: Any) -> Any:
    """The type in `hint | None` and in `tuple[hint, ...]`."""
    while get_origin(hint) is not None:
        hint = next(option for option in get_args(hint) if option is not NoneType)
    return hint
