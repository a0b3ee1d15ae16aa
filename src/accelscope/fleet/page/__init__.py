"""The web page as it was built from web/: files that hold no data, and which of them a path asks for."""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

# --- built page ------------------------------------------------------------
# The files of the built page, read once: a page that is built anew meanwhile is not half of one build and
# half of the other, and a path can name nothing but what was there.


_FOLDER = "static"  # where vite.config.ts has the page built
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
_GZIP_FROM = 1024  # bytes; less does not pay
_GZIP_LEVEL = 9  # once for each file
_NAMED_BY_CONTENT = re.compile(r"assets/.+-[\w-]{8}\.\w+")  # Vite's names


@dataclass(frozen=True)
class PageFile:
    name: str  # below the folder, with slashes
    content: bytes

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES.get(self._suffix, _UNKNOWN_TYPE)

    @property
    def lasts(self) -> bool:
        """Whether its name never stands for anything else."""
        return _NAMED_BY_CONTENT.fullmatch(self.name) is not None

    @cached_property
    def etag(self) -> str:
        """Weak: of the content, however it is encoded."""
        return f'W/"{hashlib.blake2b(self.content, digest_size=12).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes | None:
        """With gzip, where that pays."""
        if len(self.content) < _GZIP_FROM or self._suffix in _COMPRESSED_ALREADY:
            return None
        return gzip.compress(self.content, _GZIP_LEVEL, mtime=0)

    @property
    def _suffix(self) -> str:
        return self.name.rpartition(".")[2].lower()


class BuiltPage:
    def __init__(self, found: Mapping[str, bytes]) -> None:
        """Content by name. Without the entry document nothing else is of use either."""
        self._files = {name: PageFile(name, content) for name, content in found.items()}
        self.index = self._files.get(_INDEX)

    @classmethod
    def load(cls, folder: Traversable | None = None) -> "BuiltPage":
        """The one of the installed package, unless another folder is named. A folder that is not there is a
        page that was not built."""
        folder = files(__package__).joinpath(_FOLDER) if folder is None else folder
        return cls(dict(_contents(folder, "")) if folder.is_dir() else {})

    def file(self, path: str) -> PageFile | None:
        """What a URL's path names, decoded once and otherwise as it is."""
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
