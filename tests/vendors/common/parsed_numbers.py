"""All numbers in what a parser made of a text, with the names of their fields."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass


def numbers(thing: object, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(thing, tuple):
        for item in thing:
            yield from numbers(item, name)
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            yield from numbers(getattr(thing, field.name), field.name)
    elif isinstance(thing, int | float) and not isinstance(thing, bool):
        yield name, thing
