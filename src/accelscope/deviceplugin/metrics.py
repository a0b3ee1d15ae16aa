"""The plugin's own metrics, and the pages of its HTTP server."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from accelscope.metrics.catalogue.own import READERS
from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, Page, render_page
from accelscope.metrics.family import Family, FamilyFactory, ReaderView, Scope, label_text
from accelscope.model import ReaderState, ReasonCount
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
    registration_errors: tuple[ReasonCount, ...] = ()
    allocations: int = 0
    allocation_errors: tuple[ReasonCount, ...] = ()
    preferred: int = 0
    stream_seconds: float | None = None
    since_listened_seconds: float | None = None
    config_reloads: tuple[ReasonCount, ...] = ()


_plugin = FamilyFactory[PluginView](Scope.AGENT)

PLUGIN: tuple[Family, ...] = (
    _plugin.series(
        "accelscope_device_plugin_info",
        "",
        "Version of the plugin, its node, the vendor of its devices and the resource that it offers; 1.",
        ("version", "node", "vendor", "resource"),
        lambda v: [((v.version, v.node, v.vendor, v.resource), 1)],
    ),
    _plugin(
        "accelscope_device_plugin_registered",
        "",
        "1 if the plugin is registered with the kubelet.",
        lambda v: v.registered,
    ),
    _plugin(
        "accelscope_device_plugin_registrations_total",
        "",
        "Registrations with the kubelet.",
        lambda v: v.registrations,
    ),
    _plugin.series(
        "accelscope_device_plugin_registration_errors_total",
        "",
        "Errors that prevented registration, by reason; a lasting error counts once.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.registration_errors],
    ),
    _plugin(
        "accelscope_device_plugin_kubelet_listening",
        "",
        "1 while the kubelet has a ListAndWatch stream open.",
        lambda v: v.listening,
    ),
    _plugin(
        "accelscope_device_plugin_stream_seconds",
        "seconds",
        "Age of the kubelet's oldest open ListAndWatch stream.",
        lambda v: v.stream_seconds,
    ),
    _plugin(
        "accelscope_device_plugin_since_listened_seconds",
        "seconds",
        "Time since the kubelet's last ListAndWatch stream ended; 0 while one is open.",
        lambda v: v.since_listened_seconds,
    ),
    _plugin.series(
        "accelscope_device_plugin_devices",
        "",
        "Devices by state: healthy or unhealthy if offered, disabled by setting, or withheld because they "
        "cannot be allocated.",
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
        "Ids offered to the kubelet: devices, cores or partitions, times their shares.",
        ("state",),
        lambda v: [(("healthy",), v.healthy_offers), (("unhealthy",), v.unhealthy_offers)],
    ),
    _plugin(
        "accelscope_device_plugin_allocations_total",
        "",
        "Successful Allocate calls.",
        lambda v: v.allocations,
    ),
    _plugin.series(
        "accelscope_device_plugin_allocation_errors_total",
        "",
        "Rejected Allocate calls, by reason.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.allocation_errors],
    ),
    _plugin(
        "accelscope_device_plugin_preferred_allocations_total",
        "",
        "GetPreferredAllocation calls.",
        lambda v: v.preferred,
    ),
    _plugin.series(
        "accelscope_device_plugin_config_reloads_total",
        "",
        "Changes of the settings file, by result.",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.config_reloads],
    ),
)

FAMILIES: tuple[Family, ...] = (*PLUGIN, *READERS)


def render(view: PluginView) -> Page:
    reader = ReaderView(view.reader, ())
    labels = label_text([("vendor", view.reader.vendor.value)])
    return render_page(FAMILIES, {Scope.AGENT: [(view, "")], Scope.READER: [(reader, labels)]})


Probe = Callable[[], str | None]  # the problem in one line; None: no problem


class PluginPages:
    """The pages of the HTTP server, rendered at each request: they are small."""

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


def _probe(problem: str | None) -> Response:
    return Response.text(200, "ok") if problem is None else Response.text(503, problem)


class Tally:
    """Counters, written by the plugin's loops and by the threads of the kubelet's calls."""

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

    def by_reason(self, what: str) -> tuple[ReasonCount, ...]:
        with self._lock:
            found = sorted((reason, count) for (name, reason), count in self._counts.items() if name == what)
        return tuple(ReasonCount(reason, count) for reason, count in found)

    def stream_began(self, maximum: int) -> object | None:
        """A token for stream_ended(); None: the maximum is reached."""
        with self._lock:
            if len(self._streams) >= maximum:
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
        with self._lock:
            return None if not self._streams else self._clock() - min(self._streams.values())

    @property
    def since_listened_seconds(self) -> float | None:
        """0 while a stream is open; None: there never was one."""
        with self._lock:
            if self._streams:
                return 0.0
            return None if self._last_listened is None else self._clock() - self._last_listened
