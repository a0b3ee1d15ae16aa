"""What a kind of setting is: what is allowed, in words and as a parser.

A kind reads the text of a flag or an environment variable, and a node of the YAML file. In the file every
scalar is the text that stands there (`07` stays `07`, `no` stays `no`), so that a value means the same in all
three places and most kinds need one parser only.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

# What the YAML file can hold. None is an empty value or `null`.
Node = str | None | Sequence["Node"] | Mapping[str, "Node"]


class BadValue(ValueError):
    """A value that is not allowed. The text, if any, says what the kind's `allowed` does not."""


class Kind(Generic[T]):
    """Base of all kinds; packages may define their own.

    `allowed` completes the sentence "the value is not ...". A kind with `textual = False` can be given in the
    file only and has no flag and no environment variable.
    """

    allowed: str
    metavar = "VALUE"
    textual = True
    repeatable = False  # the flag may be given several times; its values are joined with commas

    def parse(self, text: str) -> T:
        """Read a flag or an environment variable. Raises BadValue."""
        raise NotImplementedError

    def parse_node(self, node: Node) -> T:
        """Read a value of the file. Raises BadValue."""
        if not isinstance(node, str):
            raise BadValue
        return self.parse(node)

    def text(self, value: T) -> str:
        """The value as a user would write it; empty for "not set"."""
        return str(value)


def quoted(text: str, limit: int = 80) -> str:
    """Text for an error message: on one line, not too long, its ends visible; not at all if it looks like a
    URL with a password in it."""
    if "://" in text and "@" in text:
        return "a URL with a user or password in it"
    shown = text if len(text) <= limit else text[:limit] + "…"
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in shown.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'
