"""Field and label selectors of list and watch."""

import re
from collections.abc import Callable, Mapping

from accelscope.simulate.fleet.cluster import LABEL

Matches = Callable[[Mapping[str, str]], bool]

_FIELDS = frozenset({"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"})
_SET = re.compile(r"(?P<name>[\w./-]+)\s+(?P<word>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<name>[\w./-]+)\s*(?P<word>==|!=|=)\s*(?P<value>[\w.-]*)")
_THERE = re.compile(r"(?P<word>!?)\s*(?P<name>[\w./-]+)")
_BETWEEN = re.compile(r",(?![^()]*\))")  # commas, but for those of a set


class BadSelector(ValueError):
    pass


def selected_by(query: Mapping[str, str], namespace: str | None) -> Matches:
    """Whether an object with these fields is asked for. Raises BadSelector."""
    terms = [_field_term(term) for term in _terms(query.get("fieldSelector", ""))]
    terms += [_label_term(term) for term in _terms(query.get("labelSelector", ""))]
    if namespace is not None:
        terms.append(lambda fields: fields.get("metadata.namespace") == namespace)
    return lambda fields: all(term(fields) for term in terms)


def _terms(text: str) -> list[str]:
    return [term.strip() for term in _BETWEEN.split(text) if term.strip()]


def _field_term(term: str) -> Matches:
    match = _EQUAL.fullmatch(term)
    if match is None or match["name"] not in _FIELDS:
        raise BadSelector(f"field label not supported: {term}")
    return _equal(match["name"], match["value"], differs=match["word"] == "!=")


def _label_term(term: str) -> Matches:
    if match := _EQUAL.fullmatch(term):
        return _equal(f"{LABEL}{match['name']}", match["value"], differs=match["word"] == "!=")
    if match := _SET.fullmatch(term):
        name, wanted = f"{LABEL}{match['name']}", match["word"] == "in"
        values = frozenset(value.strip() for value in match["values"].split(","))
        return lambda fields: (fields.get(name) in values) is wanted
    if match := _THERE.fullmatch(term):
        name, there = f"{LABEL}{match['name']}", not match["word"]
        return lambda fields: (name in fields) is there
    raise BadSelector(f"unable to parse requirement: {term}")


def _equal(name: str, value: str, *, differs: bool) -> Matches:
    return lambda fields: (fields.get(name) == value) is not differs
