"""The files of the web page, built from web/.

They are read once at the start: a later build does not mix with them, and a path can only name one of them.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

_FOLDER = "static"  # the output folder in vite.config.ts
_INDEX = "index.html"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/vnd.microsoft.icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_UNKNOWN_TYPE = "application/octet-stream"
_COMPRESSED_ALREADY = frozenset({"png", "woff2"})
_GZIP_FROM = 1024  # bytes
_GZIP_LEVEL = 9  # each file is compressed once
_NAMED_BY_CONTENT = re.compile(r"assets/.+-[\w-]{8}\.\w+")  # Vite's names


@dataclass(frozen=True)
class PageFile:
    name: str  # path below the folder
    content: bytes

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES.get(self._suffix, _UNKNOWN_TYPE)

    @property
    def is_immutable(self) -> bool:
        """Whether the name contains a hash of the content."""
        return _NAMED_BY_CONTENT.fullmatch(self.name) is not None

    @cached_property
    def etag(self) -> str:
        """Weak: the same for all encodings."""
        return f'W/"{hashlib.blake2b(self.content, digest_size=12).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes | None:
        """The content with gzip; None if that does not help."""
        if len(self.content) < _GZIP_FROM or self._suffix in _COMPRESSED_ALREADY:
            return None
        return gzip.compress(self.content, _GZIP_LEVEL, mtime=0)

    @property
    def _suffix(self) -> str:
        return self.name.rpartition(".")[2].lower()


class BuiltPage:
    def __init__(self, found: Mapping[str, bytes]) -> None:
        """`found` is the content by name. Without the index, no file is served."""
        self._files = {name: PageFile(name, content) for name, content in found.items()}
        self.index = self._files.get(_INDEX)

    @classmethod
    def load(cls, folder: Traversable | None = None) -> "BuiltPage":
        """The page in `folder`, by default in the installed package. If the folder is missing, the page was
        not built."""
        folder = files(__package__).joinpath(_FOLDER) if folder is None else folder
        return cls(dict(_contents(folder, "")) if folder.is_dir() else {})

    def file(self, path: str) -> PageFile | None:
        """The file of a decoded URL path."""
        if self.index is None:
            return None
        return self.index if path == "/" else self._files.get(path.removeprefix("/"))


def _contents(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _contents(entry, f"{name}/")
        elif not entry.name.startswith("."):
            yield name, entry.read_bytes()


__all__ = ["BuiltPage", "PageFile"]
