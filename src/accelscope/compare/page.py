"""Reads a page of metrics from a URL, a file or standard input, and parses Prometheus' text format 0.0.4 and
OpenMetrics 1.0.

A page that cannot be parsed as a whole is an error: a comparison with a part of it would report the rest as
missing.
"""

import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, KubeError, Reason

SIZE_LIMIT = 32 << 20  # bytes, after decompression; a node with 16 devices and 1,000 processes has 1 MB
_LINE_LIMIT = 64 << 10  # characters
_PIECE_BYTES = 64 << 10
_GZIP = b"\x1f\x8b"


class PageError(ValueError):
    """The page cannot be read. The text is one line that begins with the source."""


Labels = tuple[tuple[str, str], ...]  # sorted by name


@dataclass(frozen=True, slots=True)
class Series:
    """Labels without empty ones: Prometheus treats an empty label as no label."""

    labels: Labels
    value: float

    def __str__(self) -> str:
        return "{" + ",".join(f'{name}="{value}"' for name, value in self.labels) + "}"


@dataclass(slots=True)
class Metric:
    """The series of one name."""

    name: str
    type: str | None = None  # None: not declared
    help: str | None = None
    series: list[Series] = field(default_factory=list)

    @property
    def label_names(self) -> set[str]:
        return {name for series in self.series for name, _ in series.labels}


@dataclass(frozen=True, slots=True)
class Page:
    source: str
    metrics: Mapping[str, Metric]
    openmetrics: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def series(self) -> int:
        return sum(len(metric.series) for metric in self.metrics.values())


# --- parsing

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(
    rf"""({_NAME})
    (?:[ \t]*\{{((?:[^"}}]|"(?:[^"\\]|\\.)*")*)\}}[ \t]*|[ \t]+)  # values of labels may contain braces
    (\S+)
    (?:[ \t]+[-+.0-9eE]+)?[ \t]*  # a timestamp
    (?:\#.*)?  # an exemplar
    """,
    re.VERBOSE | re.ASCII,
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|$)', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n"}
_COMMENT = re.compile(rf"#[ \t]+(HELP|TYPE)[ \t]+({_NAME})[ \t]*(.*)", re.ASCII)
# What a name adds to that of its family, in OpenMetrics, histograms and summaries.
_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info")


def parse(text: str, source: str) -> Page:
    """Raises PageError."""
    begin = text.lstrip("\ufeff \t\r\n")[:1]
    if begin == "<":
        raise PageError(f"{source}: this is an HTML page, not metrics; does the URL need a path?")
    if begin in ("{", "["):
        raise PageError(f"{source}: this is JSON, not metrics; does the URL need another path?")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    metrics: dict[str, Metric] = {}
    types: dict[str, str] = {}
    helps: dict[str, str] = {}
    ended = False
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        if line.startswith("#"):
            if line.rstrip() == "# EOF":
                ended = True
                break
            if (comment := _COMMENT.match(line)) is not None:
                kind, name, rest = comment.groups()
                (types if kind == "TYPE" else helps).setdefault(name, rest.strip())
            continue
        name, series = _sample(line, f"{source}:{number}", last=number == len(lines))
        metrics.setdefault(name, Metric(name)).series.append(series)
    if not metrics:
        raise PageError(f"{source}: no metrics; is it the URL of a metrics page?")
    for metric in metrics.values():
        metric.type = _of_family(metric.name, types)
        metric.help = _of_family(metric.name, helps)
    remarks = [*_duplicates(metrics)]
    if not ended and lines[-1]:
        remarks.append("the last line has no line feed: the page may be truncated")
    return Page(source, metrics, ended, tuple(remarks))


def _sample(line: str, place: str, *, last: bool) -> tuple[str, Series]:
    match = _SAMPLE.fullmatch(line) if len(line) <= _LINE_LIMIT else None
    value = None if match is None else _number(match[3])
    labels = None if match is None else _labels(match[2] or "")
    if match is None or value is None or labels is None:
        if last:
            raise PageError(f"{place}: the page is truncated: its last line is incomplete")
        raise PageError(f"{place}: not a line of a metrics page: {line[:60]!r}")
    return match[1], Series(labels, value)


def _labels(text: str) -> Labels | None:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None or match[1] in found:
            return () if not text[position:].strip() and position else None
        value = match[2]
        if "\\" in value:
            value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), value)
        found[match[1]] = value
        position = match.end()
    return tuple(sorted((sys.intern(name), sys.intern(value)) for name, value in found.items() if value))


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _of_family(name: str, texts: Mapping[str, str]) -> str | None:
    if name in texts:
        return texts[name]
    families = (name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix))
    return next((texts[family] for family in families if family in texts), None)


def _duplicates(metrics: Mapping[str, Metric]) -> Iterator[str]:
    for metric in metrics.values():
        if (twice := len(metric.series) - len({series.labels for series in metric.series})) > 0:
            yield f"{metric.name}: {twice} of {len(metric.series)} series have the labels of another"


# --- reading

# OpenMetrics has no type for counters without _total, so the text format is preferred.
_ACCEPT = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, */*;q=0.1"


@dataclass(frozen=True)
class Source:
    """Where a page is: an endpoint, a file, or standard input as `-`."""

    name: str
    endpoint: Endpoint | None = None
    timeout_seconds: float = 10.0

    def read(self) -> Page:
        """Raises PageError."""
        limited = _Limited(self.name)
        if self.endpoint is not None:
            self._request(limited)
        elif self.name == "-":
            limited.read(sys.stdin.buffer)
        else:
            try:
                with Path(self.name).open("rb") as file:
                    limited.read(file)
            except OSError as error:
                raise PageError(f"{self.name}: {error.strerror or error}") from None
        return parse(limited.text(), self.name)

    @cached_property
    def _client(self) -> Client:
        assert self.endpoint is not None
        return Client(self.endpoint, timeout_seconds=self.timeout_seconds, user_agent="accelscope-compare")

    def _request(self, limited: "_Limited") -> None:
        assert self.endpoint is not None
        try:
            stream = self._client.stream(
                "" if self.endpoint.base_path else "/metrics",
                idle_seconds=self.timeout_seconds,
                total_seconds=self.timeout_seconds,
                accept=_ACCEPT,
                accept_gzip=True,
            )
            with stream:
                if stream.head.headers.get("content-type", "").startswith("text/html"):
                    raise PageError(
                        f"{self.name}: this is an HTML page, not metrics; name the path, such as /metrics"
                    )
                for piece in stream:
                    limited.add(piece)
        except KubeError as error:
            hint = ""
            if error.reason is Reason.NOT_FOUND:
                hint = "; name the path of the metrics page in the URL, such as /metrics"
            elif error.status in (401, 403):
                hint = "; --token-file (NEW) and --old-token-file (OLD) name a file with a bearer token"
            elif error.status is not None and 300 <= error.status < 400:
                hint = "; redirects are not followed, so name the URL of the metrics page itself"
            elif error.reason is Reason.TLS and "not trusted" in error.text:
                hint = "; --ca-file names the CA certificates to trust"
            raise PageError(f"{error.text}{hint}") from None


class _Limited:
    """Collects the bytes of a page, decompressed if they are gzip, up to SIZE_LIMIT."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._content = bytearray()
        self._gzip: zlib._Decompress | None = None
        self._first = True

    def read(self, file: BinaryIO) -> None:
        while piece := file.read(_PIECE_BYTES):
            self.add(piece)

    def add(self, piece: bytes) -> None:
        if self._first:
            self._first = False
            if piece.startswith(_GZIP):
                self._gzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        if self._gzip is None:
            self._content += piece
        else:
            try:
                self._content += self._gzip.decompress(piece, SIZE_LIMIT + 1 - len(self._content))
            except zlib.error:
                raise PageError(f"{self._source}: damaged gzip data") from None
        if len(self._content) > SIZE_LIMIT:
            raise PageError(
                f"{self._source}: larger than {SIZE_LIMIT >> 20} MiB, which is no exporter's page of one node"
            )

    def text(self) -> str:
        if self._gzip is not None and not self._gzip.eof:
            raise PageError(f"{self._source}: the page is truncated: its gzip data is incomplete")
        try:
            return self._content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise PageError(f"{self._source}: not a metrics page: it is not UTF-8 text") from None
