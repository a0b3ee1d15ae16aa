"""Versions of drivers and firmware, taken apart."""

import re
from dataclasses import dataclass

# `550.54.15`, `24.1.rc3`, `1.9.8, 4c1f0aa`, `2026.1.0-dev0+96977d5`, `6.10.5 (build 7)`
_VERSION = re.compile(
    r"v?(?P<text>(?P<major>\d{1,9})(?:\.(?P<minor>\d{1,9})(?:\.(?P<patch>\d{1,9}))?)?"
    r"(?P<more>[0-9A-Za-z._~-]{0,100}))"
    r"(?:(?:\+|,\s*)(?P<reference>[0-9A-Za-z.-]{1,100}))?(?![0-9A-Za-z])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Version:
    """`reference` is the commit or build that it was made from."""

    text: str
    major: str | None = None
    minor: str | None = None
    patch: str | None = None
    prerelease: str | None = None
    reference: str | None = None

    @property
    def numbers(self) -> str:
        """x.y.z where it has all three."""
        parts = (self.major, self.minor, self.patch)
        return ".".join(part for part in parts if part) if None not in parts else self.text


def version_of(text: str) -> Version:
    match = _VERSION.match(text.strip())
    if match is None:
        return Version(text.strip())
    more = match["more"]
    minor, patch = match["minor"], match["patch"]
    if more and more[0].isalnum():
        # `24.1rc3`, `535.1a`: the last number is not a number by itself.
        minor, patch = (minor if patch else None), None
    return Version(
        match["text"],
        match["major"],
        minor,
        patch,
        more[1:] or None if more.startswith("-") else None,
        match["reference"],
    )
