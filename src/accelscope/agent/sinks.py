"""What the settings mean for sinks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint
from accelscope.model import Snapshot
from accelscope.sinks.annotation import AnnotationSink
from accelscope.sinks.documents import devices_annotation
from accelscope.sinks.feature_file import FeatureFileSink
from accelscope.sinks.features import Sizes, feature_labels
from accelscope.sinks.labels import Features, LabelsSink
from accelscope.sinks.machine import read_machine
from accelscope.sinks.sink import Pace, Sink
from accelscope.vendors import declarations


def make_sinks(settings: AgentSettings, node: str, api_server: Endpoint | None) -> tuple[Sink[Any], ...]:
    """Those that are on. Raises ConfigError for one that needs an API server where there is none."""
    needing = _needing_an_api_server(settings)
    if needing is not None and api_server is None:
        raise ConfigError(f"{needing}: not in a cluster; give --kube-api-url")
    client = Client(api_server) if needing is not None and api_server is not None else None
    sinks: list[Sink[Any]] = []
    annotations = chosen_annotations(settings)
    if annotations and client is not None:
        pace = Pace(settings.annotation_interval, settings.annotation_heartbeat)
        sinks.append(AnnotationSink(client, node, annotations, pace))
    if settings.feature_labels == "node" and client is not None:
        sinks.append(LabelsSink(client, node, features(settings), writer=writer_of(settings)))
    if settings.feature_labels == "nfd":
        folder = Path(settings.feature_file_folder)
        sinks.append(FeatureFileSink(folder, features(settings), writer=writer_of(settings)))
    return tuple(sinks)


def writer_of(settings: AgentSettings) -> str:
    """Whose labels these are. An agent for some vendors only may have another one beside it on the node."""
    return "-".join(("accelscope", *sorted(_only_readers(settings) or ())))


def chosen_annotations(settings: AgentSettings) -> tuple[str, ...]:
    """A vendor's own only where its devices are read: another agent of the node may write it."""
    chosen = [
        declared.annotation.name
        for vendor, declared in declarations().items()
        if declared.annotation is not None and vendor in settings.readers
        if settings.vendor_annotations.get(declared.annotation.setting)
    ]
    if settings.devices_annotation:
        chosen.append(devices_annotation(_only_readers(settings)))
    return tuple(chosen)


def _only_readers(settings: AgentSettings) -> tuple[str, ...] | None:
    """None: all of them."""
    return None if set(settings.readers) == set(declarations()) else settings.readers


def features(settings: AgentSettings) -> Features:
    """The machine is asked once: it does not become another."""
    machine = read_machine(settings.paths.sys)
    sizes = Sizes()

    def labels(snapshot: Snapshot) -> Mapping[str, str]:
        return feature_labels(sizes.filled_in(snapshot.devices), machine, settings.feature_domains)

    return labels


def _needing_an_api_server(settings: AgentSettings) -> str | None:
    """The first setting that does."""
    for name, on in settings.vendor_annotations.items():
        if on:
            return f"--{name.replace('_', '-')}"
    if settings.devices_annotation:
        return "--devices-annotation"
    return "--feature-labels node" if settings.feature_labels == "node" else None
