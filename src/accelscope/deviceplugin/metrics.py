"""Metrics of the plugin itself: families as data, and the page that is made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from accelscope.metrics.catalogue.own import READERS
from accelscope.metrics.exposition import Page
from accelscope.metrics.family import Declare, Family, ReaderView, Scope
from accelscope.metrics.lines import label_text, number_text
from accelscope.model import Counted, ReaderState


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
