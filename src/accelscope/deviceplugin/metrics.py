"""Metrics of the plugin itself: families as data, and the page that is made of them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accelscope.metrics.catalogue.own import READERS
from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, Page
from accelscope.metrics.family import Declare, Family, ReaderView, Scope, label_text, number_text
from accelscope.model import Counted, ReaderState
from accelscope.serve import Handler, Request, Response, Route, accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginView:
    version: str
    node: str
    vendor: str
    resource: str
    registered: bool
    listening: bool
    reader: ReaderState
    healthy: int = 0
    unhealthy: int = 0
    disabled: int = 0
    withheld: int = 0
    healthy_offers: int = 0
    unhealthy_offers: int = 0
    registrations: int = 0
    registration_errors: tuple[Counted, ...] = ()
    allocations: int = 0
    allocation_errors: tuple[Counted, ...] = ()
    preferred: int = 0
    stream_seconds: float | None = None
    since_listened_seconds: float | None = None
    config_reloads: tuple[Counted, ...] = field(default=())


_plugin = Declare[PluginView](Scope.AGENT)

PLUGIN: tuple[Family, ...] = (
    _plugin.series(
        "accelscope_device_plugin_info",
        "",
        "Version of the plugin, its node, and what it offers whose devices as; 1.",
        ("version", "node", "vendor", "resource"),
        lambda v: [((v.version, v.node, v.vendor, v.resource), 1)],
    ),
    _plugin(
        "accelscope_device_plugin_registered",
        "",
        "1 if the kubelet took the plugin's registration and nothing since says that it lost it.",
        lambda v: v.registered,
    ),
    _plugin(
        "accelscope_device_plugin_registrations_total",
        "",
        "Times that the plugin was registered.",
        lambda v: v.registrations,
    ),
    _plugin.series(
        "accelscope_device_plugin_registration_errors_total",
        "",
        "Troubles that kept the plugin from being registered, by reason; each counts once while it lasts.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.registration_errors],
    ),
    _plugin(
        "accelscope_device_plugin_kubelet_listening",
        "",
        "1 while the kubelet listens for changes of the devices.",
        lambda v: v.listening,
    ),
    _plugin(
        "accelscope_device_plugin_stream_seconds",
        "seconds",
        "How long the kubelet has been listening without a break.",
        lambda v: v.stream_seconds,
    ),
    _plugin(
        "accelscope_device_plugin_since_listened_seconds",
        "seconds",
        "Time since the kubelet last listened; 0 while it does.",
        lambda v: v.since_listened_seconds,
    ),
    _plugin.series(
        "accelscope_device_plugin_devices",
        "",
        "Devices by what the kubelet is told of them: healthy, unhealthy; and those that are not offered: "
        "disabled by setting, withheld because they cannot be handed out.",
        ("state",),
        lambda v: [
            (("healthy",), v.healthy),
            (("unhealthy",), v.unhealthy),
            (("disabled",), v.disabled),
            (("withheld",), v.withheld),
        ],
    ),
    _plugin.series(
        "accelscope_device_plugin_offers",
        "",
        "Ids that the kubelet is offered: devices, cores or partitions, times their shares.",
        ("state",),
        lambda v: [(("healthy",), v.healthy_offers), (("unhealthy",), v.unhealthy_offers)],
    ),
    _plugin(
        "accelscope_device_plugin_allocations_total",
        "",
        "Allocations that were answered.",
        lambda v: v.allocations,
    ),
    _plugin.series(
        "accelscope_device_plugin_allocation_errors_total",
        "",
        "Allocations that were refused, by reason.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.allocation_errors],
    ),
    _plugin(
        "accelscope_device_plugin_preferred_allocations_total",
        "",
        "Times that the kubelet asked which devices would be best.",
        lambda v: v.preferred,
    ),
    _plugin.series(
        "accelscope_device_plugin_config_reloads_total",
        "",
        "Changes of the settings file that were noticed, by what came of them.",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.config_reloads],
    ),
)

FAMILIES: tuple[Family, ...] = (*PLUGIN, *READERS)


def render(view: PluginView) -> Page:
    reader = ReaderView(view.reader, ())
    blocks = []
    for family in FAMILIES:
        of_reader = family.scope is Scope.READER
        samples = family.take(reader if of_reader else view)
        base = [("vendor", view.reader.vendor.value)] if of_reader else []
        lines = [
            _line(family.name, [*base, *zip(family.labels, values, strict=True)], number)
            for values, number in samples
        ]
        if lines:
            blocks.append((family, "".join(lines)))
    return Page(blocks, sum(lines.count("\n") for _, lines in blocks))


def _line(name: str, labels: Sequence[tuple[str, str]], number: float) -> str:
    written = f"{{{label_text(labels)}}}" if labels else ""
    return f"{name}{written} {number_text(number)}\n"


# --- pages ------------------------------------------------------------
# What the plugin's HTTP server answers. The page is made when it is asked for: it is small.


Probe = Callable[[], str | None]  # what is wrong, in one line


class Pages:
    def __init__(self, view: Callable[[], PluginView], *, alive: Probe, ready: Probe) -> None:
        self._view = view
        self._alive = alive
        self._ready = ready

    def routes(self) -> dict[str, Handler | Route]:
        return {
            "/metrics": self._metrics,
            "/": self._index,
            "/healthz": Route(lambda _: _probe(self._alive()), guarded=False),
            "/readyz": Route(lambda _: _probe(self._ready()), guarded=False),
        }

    def _metrics(self, request: Request) -> Response:
        page = render(self._view())
        kind = accepts(request.headers.get("accept"), (TEXT_TYPE, OPENMETRICS_TYPE)) or TEXT_TYPE
        body = page.openmetrics if kind == OPENMETRICS_TYPE else page.text
        return Response({"identity": body}, content_type=kind)

    def _index(self, _: Request) -> Response:
        return Response.text(200, "AccelScope device plugin: /metrics, /healthz, /readyz")


def _probe(trouble: str | None) -> Response:
    return Response.text(200, "ok") if trouble is None else Response.text(503, trouble)


# --- tally ------------------------------------------------------------
# What the plugin counts of itself; threads of the kubelet's calls and of the loop write here.


class Tally:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter()
        self._streams: dict[object, float] = {}  # token -> since when
        self._last_listened: float | None = None

    def count(self, what: str, reason: str = "") -> None:
        with self._lock:
            self._counts[what, reason] += 1

    def total(self, what: str) -> int:
        with self._lock:
            return sum(count for (name, _), count in self._counts.items() if name == what)

    def by_reason(self, what: str) -> tuple[Counted, ...]:
        with self._lock:
            found = sorted((reason, count) for (name, reason), count in self._counts.items() if name == what)
        return tuple(Counted(reason, count) for reason, count in found)

    def stream_began(self, most: int) -> object | None:
        """A token to end it with; None: there are as many as there may be."""
        with self._lock:
            if len(self._streams) >= most:
                return None
            token = object()
            self._streams[token] = self._clock()
            return token

    def stream_ended(self, token: object) -> None:
        with self._lock:
            if self._streams.pop(token, None) is not None:
                self._last_listened = self._clock()

    @property
    def listening(self) -> bool:
        with self._lock:
            return bool(self._streams)

    @property
    def stream_seconds(self) -> float | None:
        """How long the kubelet has been listening without a break."""
        with self._lock:
            return None if not self._streams else self._clock() - min(self._streams.values())

    @property
    def since_listened_seconds(self) -> float | None:
        """0 while the kubelet listens; None: it never did."""
        with self._lock:
            if self._streams:
                return 0.0
            return None if self._last_listened is None else self._clock() - self._last_listened
