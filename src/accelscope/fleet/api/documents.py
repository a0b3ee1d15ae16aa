"""The API's own description: the OpenAPI document and a page to read. They hold no data and are open."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from html import escape

import msgspec

from accelscope.fleet.api.answering import NO_FRAMES
from accelscope.fleet.api.description import Field, answer_fields, problem_words, sentence, type_words
from accelscope.fleet.api.openapi import INTRODUCTION, TAGS, openapi
from accelscope.fleet.api.parameter import Parameter, schema
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import COMMON_PROBLEMS, Document, Route

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


def document_routes(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Both describe `routes`."""

    @cache
    def encoded(guarded: bool) -> bytes:
        return msgspec.json.encode(openapi(routes, guarded=guarded))

    @cache
    def page() -> bytes:
        return docs_page(routes).encode()

    return (
        Route(
            path="/openapi.json",
            summary="The OpenAPI 3.1 document",
            tag="service",
            answer=None,
            handle=lambda call: Document([encoded(call.fleet.guarded)]),
            scope=None,
        ),
        Route(
            path="/docs",
            summary="This description as a page",
            tag="service",
            answer=None,
            media_type="text/html; charset=utf-8",
            handle=lambda _: Document([page()]),
            scope=None,
            content_security_policy=PAGE_POLICY,
        ),
    )


def docs_page(routes: tuple[Route, ...]) -> str:
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>AccelScope fleet API</title>",
        f"<style>{STYLE}</style></head><body><h1>AccelScope fleet API</h1>",
        "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in INTRODUCTION.strip().split("\n\n")),
        "<p><a href='openapi.json'>openapi.json</a></p>",
        f"<details><summary>Problems of every route</summary>{_problems(COMMON_PROBLEMS)}</details><nav>",
    ]
    for tag, text in TAGS.items():
        links = "".join(
            f"<li><a href='#{_anchor(route)}'>{escape(_shown(route))}</a></li>"
            for route in routes
            if route.tag == tag
        )
        parts.append(f"<h2>{escape(tag)}</h2><p>{_prose(text)}</p><ul>{links}</ul>")
    parts.append("</nav>")
    parts += [_section(route, routes) for tag in TAGS for route in routes if route.tag == tag]
    parts.append("</body></html>")
    return "".join(parts)


def _section(route: Route, routes: tuple[Route, ...]) -> str:
    scope = f"Scope: <code>{route.scope}</code>." if route.scope is not None else "Open to everybody."
    parts = [
        f"<h3 id='{_anchor(route)}'><span class=method>{route.method}</span> ",
        f"<code>{escape(route.path)}</code></h3><p>{_prose(route.summary)}.</p>",
        f"<p>{_prose(route.description)}</p>" if route.description else "",
        f"<p>{scope} Answer: <code>{escape(route.media_type)}</code></p>",
    ]
    if route.parameters:
        rows = "".join(_parameter_row(parameter) for parameter in route.parameters)
        parts.append(
            f"<details><summary>{len(route.parameters)} parameters</summary><table>{rows}</table></details>"
        )
    for name, fields in answer_fields(route, routes):
        rows = "".join(_field_row(field) for field in fields)
        parts.append(f"<details><summary>Fields of {escape(name)}</summary><table>{rows}</table></details>")
    if route.problems:
        parts.append(f"<p>Problems of its own:</p>{_problems(route.problems)}")
    return "".join(parts)


def _problems(kinds: Iterable[ProblemKind]) -> str:
    return f"<ul>{''.join(f'<li>{_prose(words)}</li>' for words in problem_words(kinds))}</ul>"


def _parameter_row(parameter: Parameter) -> str:
    needed = " (needed)" if parameter.required else ""
    where = "" if parameter.where == "query" else f" in the {parameter.where}"
    return (
        f"<tr><td><code>{escape(parameter.name)}</code>{needed}{where}</td>"
        f"<td>{escape(type_words(schema(parameter.kind)))}</td>"
        f"<td>{_prose(sentence(parameter.description))}</td></tr>"
    )


def _field_row(field: Field) -> str:
    return (
        f"<tr><td><code>{escape(field.name)}</code></td><td>{escape(field.type)}</td>"
        f"<td>{_prose(field.description)}</td></tr>"
    )


def _shown(route: Route) -> str:
    return route.path if route.method == "GET" else f"{route.method} {route.path}"


def _anchor(route: Route) -> str:
    return "".join(c if c.isalnum() else "-" for c in f"{route.method.lower()}{route.path}").strip("-")


def _prose(text: str) -> str:
    """Back quotes are code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
