"""The reference page of the API in Markdown, from the declarations of its routes."""

from collections.abc import Iterator, Sequence

from accelscope.fleet.api.description import answer_fields, problem_words, sentence, type_words
from accelscope.fleet.api.openapi import INTRODUCTION, TAGS
from accelscope.fleet.api.parameter import Parameter, schema
from accelscope.fleet.api.route import COMMON_PROBLEMS, Route
from accelscope.fleet.api.routes import ROUTES

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
