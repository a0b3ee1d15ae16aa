"""The sink that writes annotations of the Node: those that vendors declare, and the vendor-neutral one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from accelscope.kube.client import Client
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.objects import annotations_patch, send
from accelscope.model import Snapshot, Vendor
from accelscope.sinks.documents import (
    BUDGET_BYTES,
    Document,
    Entry,
    FittedDocument,
    Value,
    devices_document,
    fit,
    smallest_bytes,
    vendor_document,
)
from accelscope.sinks.sink import PATIENCE_SECONDS, ReaderReadiness, Sink, Timing, WriteIntervals
from accelscope.vendors import declarations

NAME = "annotation"
LAST_READING_SECONDS = 300.0  # after this time, a device that cannot be read loses its values
# How long a reduced size is kept after the Node had no room; others may have removed annotations by then.
_SMALL_SECONDS = 3600.0
_ANNOTATIONS_FIELD = "metadata.annotations"  # in the API server's error if all annotations are too large
_UNPROCESSABLE = 422

# How the document of an annotation is made, and the vendor whose devices it contains (None: all).
DocumentBuilder = tuple[Callable[[Snapshot], Document], Vendor | None]
Documents = Mapping[str, Document | None]  # by annotation; None: it should not exist


def document_builder(annotation: str) -> DocumentBuilder:
    """For an annotation that a vendor declares, or a `devices_annotation`."""
    for name, declared in declarations().items():
        if declared.annotation is not None and declared.annotation.name == annotation:
            return partial(vendor_document, declared), Vendor(name)
    return devices_document, None


def is_node_full(error: KubeError) -> bool:
    """Whether the API server rejects a write because the Node's annotations are too large in total."""
    return error.status == _UNPROCESSABLE and _ANNOTATIONS_FIELD in error.text


class AnnotationSink(Sink[Documents]):
    def __init__(
        self,
        client: Client,
        node: str,
        annotations: tuple[str, ...],
        pace: WriteIntervals,
        *,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(NAME, pace, client=client, timing=timing)
        self._api_server = client
        self._node = node
        self._annotations = annotations
        self._budget_bytes = self._full_bytes = BUDGET_BYTES // len(annotations)  # of each of them
        self._small_since = 0.0  # by the monotonic clock
        self._readiness = {name: ReaderReadiness(self._timing.monotonic) for name in annotations}
        self._last_readings = {name: LastReadings(self._timing.monotonic) for name in annotations}
        self._listed: dict[str, frozenset[str]] = {}  # devices of the last document, by annotation
        self._lacks_numbers_since: dict[str, float] = {}  # by annotation, by the monotonic clock
        self._had: set[str] = set()  # annotations that had a device since the agent started

    def _content(self, snapshot: Snapshot) -> Documents | None:
        content: dict[str, Document | None] = {}
        for annotation in self._annotations:
            make, vendor = document_builder(annotation)
            document = self._last_readings[annotation].fill_in(make(snapshot))
            if annotation not in self._had and (
                self._may_grow(annotation, document, snapshot, vendor)
                or self._waits_for_numbers(annotation, document)
            ):
                continue
            if document.entries:
                self._had.add(annotation)
            elif not self._readiness[annotation].is_ready(snapshot, vendor):
                continue  # the other annotations are still written
            content[annotation] = document if annotation in self._had else None
        return content or None

    def _may_grow(
        self, annotation: str, document: Document, snapshot: Snapshot, vendor: Vendor | None
    ) -> bool:
        """After a start a reader may need several collections to find its devices. An incomplete list must
        not replace the complete one of an earlier agent. A list that stays the same is written."""
        listed = frozenset(entry.device for entry in document.entries)
        before, self._listed[annotation] = self._listed.get(annotation), listed
        return listed != before and any(
            reader.devices_seen < reader.devices_expected
            for reader in snapshot.readers
            if vendor is None or reader.vendor is vendor
        )

    def _waits_for_numbers(self, annotation: str, document: Document) -> bool:
        """After a start the numbers of devices may be unknown because a tool fails. A list without them must
        not replace one that has them. The wait is limited, because some nodes never report numbers."""
        if not any(entry.lacks_number for entry in document.entries):
            return False
        now = self._timing.monotonic()
        return now - self._lacks_numbers_since.setdefault(annotation, now) < PATIENCE_SECONDS

    def _differs(self, content: Documents, written: Documents) -> bool:
        return any(
            name not in written or _changed(document, written[name]) for name, document in content.items()
        )

    def _renews(self, content: Documents) -> bool:
        """Only with a newer timestamp: a document that keeps an older reading also keeps its timestamp."""
        written = self._written or {}
        return any(
            document is not None and (before is None or document.taken_at > before.taken_at)
            for document, before in ((each, written.get(name)) for name, each in content.items())
        )

    def _write(self, content: Documents) -> str | None:
        if self._timing.monotonic() - self._small_since >= _SMALL_SECONDS:
            self._budget_bytes = self._full_bytes
        forms = {
            name: None if document is None else fit(document, self._budget_bytes)
            for name, document in content.items()
        }
        try:
            annotate(self._api_server, self._node, forms)
        except KubeError as error:
            if not is_node_full(error):
                raise
            advice = self._become_smaller(content, forms)
            raise KubeError(Reason.TOO_LARGE, f"{error.text}; {advice}", status=error.status) from None
        return "; ".join(filter(None, map(_describe_omissions, forms.items()))) or None

    def _become_smaller(self, content: Documents, forms: Mapping[str, FittedDocument | None]) -> str:
        """Halve the budget for the next attempt. Returns a text about it for the error."""
        self._small_since = self._timing.monotonic()
        sent = max(
            (len(name) + len(form.text) for name, form in forms.items() if form is not None), default=0
        )
        smallest = max((smallest_bytes(each) for each in content.values() if each is not None), default=0)
        if sent <= smallest:
            return "other annotations leave no room for a single device: remove some of them"
        self._budget_bytes = max(sent // 2, smallest)
        return f"trying with {self._budget_bytes} bytes instead of {sent}"


def annotate(
    client: Client, node: str, forms: Mapping[str, FittedDocument | None], *, dry_run: bool = False
) -> None:
    """Raises KubeError."""
    texts = {name: None if form is None else form.text for name, form in forms.items()}
    send(client, annotations_patch(node, texts, dry_run=dry_run))


def _changed(document: Document | None, written: Document | None) -> bool:
    if document is None or written is None:
        return document is not written
    return differ(document, written)


def _describe_omissions(form: tuple[str, FittedDocument | None]) -> str | None:
    name, made = form
    if made is None or not (made.without_values or made.left_out):
        return None
    text = f"{name} has no room for the values of {made.without_values} devices"
    return f"{text}, and omits {made.left_out} devices" if made.left_out else text


@dataclass(frozen=True, slots=True)
class _LastReading:
    entry: Entry
    taken_at: float  # of the document that it comes from
    seen_at: float  # by the monotonic clock


class LastReadings:
    """The last readings of the devices of one annotation, used for a short time if a device cannot be read.

    Otherwise one failure of a tool would replace good values on the Node: programs that read the annotations
    decode a missing number as 0, and a health other than OK as a fault.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._readings: dict[str, _LastReading] = {}  # by device id

    def fill_in(self, document: Document) -> Document:
        """The document with the last reading of each device that was not read. Its time becomes that of the
        oldest reading in it, so that old values do not look current."""
        now = self._monotonic()
        readings: dict[str, _LastReading] = {}
        entries: list[Entry] = []
        taken_at = document.taken_at
        for entry in document.entries:
            reading = _LastReading(entry, document.taken_at, now)
            if not entry.answered:
                last = self._readings.get(entry.device)
                if last is None or now - last.seen_at > LAST_READING_SECONDS:
                    entries.append(entry)
                    continue
                reading = last
            readings[entry.device] = reading
            entries.append(reading.entry)
            taken_at = min(taken_at, reading.taken_at)
        self._readings = readings
        return replace(document, taken_at=taken_at, entries=tuple(entries))


@dataclass(frozen=True, slots=True)
class Band:
    """How far a value may change before it is written again: the larger of both limits. Values of idle
    devices fluctuate, and every write goes to etcd."""

    absolute: float = 0.0
    relative: float = 0.0
    of: str | None = None  # the value that `relative` refers to; None: the written value itself


_POWER = Band(absolute=1.0, relative=0.02)
_CELSIUS = Band(absolute=1.0)
BANDS: Mapping[str, Band] = {
    "power": _POWER,
    "power_watts": _POWER,
    "temp": _CELSIUS,
    "temperature_celsius": _CELSIUS,
    "aicore": Band(absolute=2.0),
    "utilization_ratio": Band(absolute=0.02),
    "hbm_used": Band(relative=0.01, of="hbm_total"),
    "memory_used_bytes": Band(relative=0.01, of="memory_total_bytes"),
}
_ROUNDING = 1e-9


def differ(new: Document, written: Document) -> bool:
    """Whether devices, health or the set of values changed, or a value left its band."""
    if len(new.entries) != len(written.entries):
        return True
    return any(_entry_differs(*pair) for pair in zip(new.entries, written.entries, strict=True))


def _entry_differs(entry: Entry, before: Entry) -> bool:
    if entry.identity != before.identity or entry.values.keys() != before.values.keys():
        return True
    return any(_leaves_band(name, value, before.values) for name, value in entry.values.items())


def _leaves_band(name: str, value: Value, before: Mapping[str, Value]) -> bool:
    band = BANDS.get(name, Band())
    whole = before.get(band.of or name, 0)
    return abs(value - before[name]) > max(band.absolute, band.relative * abs(whole)) + _ROUNDING
