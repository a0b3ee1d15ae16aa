"""The agent's HTTP handlers. They serve the last snapshot; each format of it is rendered at most once."""

import json
import time
from collections.abc import Callable
from functools import cached_property
from gzip import compress
from typing import TYPE_CHECKING

from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, Exposition, Page
from accelscope.model import Snapshot
from accelscope.model.wire import snapshot_document
from accelscope.serve import Handler, Request, Response, Route, accepts
from accelscope.serve.message import choose_encoding

if TYPE_CHECKING:
    from accelscope.model.update import SnapshotRows, Structures

_STUCK_SECONDS = 30.0
# For so long after a scrape, new pages are made in its format with the collection: joining and compressing
# took most of the time of the first scrape of a page.
_SCRAPED_SECONDS = 60.0

# Age of the snapshot in seconds: clients need not compare this machine's clock with their own.
AGE_HEADER = "X-AccelScope-Age"
_UPDATE_TYPE = "application/vnd.accelscope.update+json"  # as in model.update, which only a fleet needs


class CollectedSnapshot:
    """A snapshot with its formats, each rendered when it is first requested."""

    def __init__(self, snapshot: Snapshot, page: Page, made_at: float = 0.0) -> None:
        self.snapshot = snapshot
        self.page = page
        self.made_at = made_at  # by the monotonic clock

    @property
    def tag(self) -> str:
        """Weak, because the plain and the compressed body share it."""
        agent = self.snapshot.agent
        return f'W/"{agent.started_at:.6f}-{agent.collections}"'

    @cached_property
    def rows(self) -> "SnapshotRows":
        from accelscope.model.update import rows_of  # noqa: PLC0415 - only for a fleet

        return rows_of(self.snapshot)

    @cached_property
    def update(self) -> bytes:
        from accelscope.model.update import update_document  # noqa: PLC0415

        return update_document(self.rows)

    @cached_property
    def document(self) -> bytes:
        return json.dumps(snapshot_document(self.snapshot), separators=(",", ":")).encode()

    @cached_property
    def document_gzip(self) -> bytes:
        return compress(self.document, compresslevel=1, mtime=0)


class Pages:
    def __init__(
        self,
        exposition: Exposition,
        *,
        metrics_path: str,
        moved_at: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`moved_at` returns when the collection loop last made progress, by the monotonic clock."""
        self.exposition = exposition
        self._metrics_path = metrics_path
        self._moved_at = moved_at
        self._monotonic = monotonic
        self._last: CollectedSnapshot | None = None
        self._scraped_at: dict[str, float] = {}  # by the attribute of Page with that format
        self._structures: Structures | None = None  # from the first request of a fleet on

    def publish(self, snapshot: Snapshot) -> None:
        page, now = self.exposition.render(snapshot), self._monotonic()
        self._last = CollectedSnapshot(snapshot, page, now)  # frees the previous page
        for form, scraped_at in list(self._scraped_at.items()):  # a copy: a scrape may add one
            if now - scraped_at <= _SCRAPED_SECONDS:
                getattr(page, form)

    def routes(self) -> dict[str, Handler | Route]:
        return {
            self._metrics_path: self._metrics,
            "/snapshot": self._snapshot,
            "/": self._index,
            "/healthz": Route(self._healthz, guarded=False),
            "/readyz": Route(self._readyz, guarded=False),
        }

    def _metrics(self, request: Request) -> Response:
        if self._last is None:
            return Response.text(503, "the first collection is not finished yet")
        page = self._last.page
        kind = accepts(request.headers.get("accept"), (TEXT_TYPE, OPENMETRICS_TYPE)) or TEXT_TYPE
        form = "openmetrics" if kind == OPENMETRICS_TYPE else "text"

        def body(form: str) -> bytes:
            self._scraped_at[form] = self._monotonic()
            found: bytes = getattr(page, form)
            return found

        return _encoded_response(request, lambda: body(form), lambda: body(f"{form}_gzip"), kind)

    def _snapshot(self, request: Request) -> Response:
        last = self._last
        if last is None:
            return Response.text(503, "the first collection is not finished yet")
        tag = last.tag
        headers: tuple[tuple[str, str], ...] = (
            ("ETag", tag),
            (AGE_HEADER, f"{max(0.0, self._monotonic() - last.made_at):.3f}"),
        )
        if tag in (known.strip() for known in request.headers.get("if-none-match", "").split(",")):
            return Response.not_modified(*headers)
        known = request.headers.get("x-accelscope-structure")
        if known is not None:
            name = self._structure(last)
            headers = *headers, ("X-AccelScope-Structure", name)
            if name == known:
                return Response({"identity": last.update}, content_type=_UPDATE_TYPE, headers=headers)
        return _encoded_response(
            request, lambda: last.document, lambda: last.document_gzip, "application/json", headers
        )

    def _structure(self, last: CollectedSnapshot) -> str:
        from accelscope.model.update import Structures, structure_of  # noqa: PLC0415

        if self._structures is None:
            self._structures = Structures(f"{last.snapshot.agent.started_at:.6f}")
        return self._structures.name(structure_of(last.snapshot, last.rows))

    def _healthz(self, _: Request) -> Response:
        idle = self._monotonic() - self._moved_at()
        if idle > _STUCK_SECONDS:
            return Response.text(503, f"the collection loop has made no progress for {idle:.0f} s")
        return Response.text(200, "ok")

    def _readyz(self, _: Request) -> Response:
        last = self._last
        if last is None:
            return Response.text(503, "the first collection is not finished yet")
        snapshot = last.snapshot
        age = self._monotonic() - last.made_at
        if age > _STUCK_SECONDS + 2 * (snapshot.interval_seconds or 0):
            return Response.text(503, f"the last collection was {age:.0f} s ago")
        found = [reader for reader in snapshot.readers if reader.found]
        if found and not any(reader.up for reader in found):
            reasons = "; ".join(f"{reader.vendor}: {reader.reason}" for reader in found)
            return Response.text(503, f"no driver is readable: {reasons}")
        return Response.text(200, "ok" if found else "ok: no accelerator driver on this node")

    def _index(self, _: Request) -> Response:
        return Response({"identity": self._index_page().encode()}, content_type="text/html; charset=utf-8")

    def _index_page(self) -> str:
        rows, node, version = "", "", ""
        if self._last is not None:
            snapshot = self._last.snapshot
            node, version = snapshot.node, snapshot.agent.version
            rows = "".join(
                f"<tr><td>{_escape(d.id)}<td>{_escape(d.model or '')}"
                f"<td>{d.health.state}<td>{_escape(d.health.reason or '')}</tr>"
                for d in snapshot.devices
            )
        path = _escape(self._metrics_path)
        return (
            "<!doctype html><html lang=en><meta charset=utf-8><title>AccelScope agent</title>"
            "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem;max-width:60rem}"
            "td,th{text-align:left;padding:.2rem 1rem .2rem 0}</style>"
            f"<h1>AccelScope agent {_escape(version)}</h1>"
            f"<p>Node {_escape(node) or 'not read yet'}</p>"
            f"<ul><li><a href='{path}'>Metrics</a> for Prometheus<li><a href='/snapshot'>Snapshot</a> as JSON"
            "<li><a href='/healthz'>Liveness</a><li><a href='/readyz'>Readiness</a></ul>"
            f"<table><tr><th>Device<th>Model<th>Health<th></tr>{rows}</table></html>"
        )


def _encoded_response(
    request: Request,
    plain: Callable[[], bytes],
    compressed: Callable[[], bytes],
    kind: str,
    headers: tuple[tuple[str, str], ...] = (),
) -> Response:
    """Compress only if the client accepts it."""
    bodies = {"identity": plain()}
    if choose_encoding(request.headers.get("accept-encoding"), ("gzip",)) == "gzip":
        bodies["gzip"] = compressed()
    return Response(bodies, content_type=kind, headers=headers)


def _escape(text: str) -> str:
    """For HTML. Not `html.escape`: its module loads a table of 2,000 named characters."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(character, entity)
    return text
