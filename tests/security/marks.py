"""Secrets that can be recognised wherever they turn up, however they are spelled."""

import base64
from collections.abc import Iterator
from urllib.parse import quote


class Marks:
    """Made by the place where each is given, so that a failure names it."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}

    def new(self, place: str) -> str:
        """Neither long nor of a form that looks like a token: nothing but knowing it can hide it."""
        secret = f"Hush/{len(self._secrets)}.quiet+{place.replace(' ', '-')}"
        self._secrets[place] = secret
        return secret

    def add(self, place: str, secret: str) -> None:
        """One that somebody else has made."""
        self._secrets[place] = secret

    def seen_in(self, text: str | bytes) -> list[str]:
        """Places whose secret can be read there."""
        content = text if isinstance(text, bytes) else text.encode()
        return [place for place, secret in self._secrets.items() if any(f in content for f in _forms(secret))]


def _forms(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield secret.replace("/", "\\/").encode()  # JSON, as some write it
    # In base64 wherever it begins: the characters that its neighbours have no part in.
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret.encode())
        yield encoded[4 * ((before + 2) // 3) : -4]
