"""Makes the sinks that the settings enable. The agent imports this only if there are any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.config.settings import flag_name
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint
from accelscope.model import Snapshot
from accelscope.sinks.annotation import AnnotationSink
from accelscope.sinks.documents import devices_annotation
from accelscope.sinks.features import Sizes, feature_labels, read_machine
from accelscope.sinks.labels import FeatureFileSink, Features, LabelsSink
from accelscope.sinks.sink import Sink, WriteIntervals
from accelscope.vendors import declarations


def make_sinks(settings: AgentSettings, node: str, api_server: Endpoint | None) -> tuple[Sink[Any], ...]:
    """Raises ConfigError if a sink needs an API server and there is none."""
    flag = _flag_that_needs_api_server(settings)
    if flag is not None and api_server is None:
        raise ConfigError(f"{flag}: not in a Kubernetes cluster; set --kube-api-url")
    client = Client(api_server) if flag is not None and api_server is not None else None
    sinks: list[Sink[Any]] = []
    annotations = chosen_annotations(settings)
    if annotations and client is not None:
        pace = WriteIntervals(settings.annotation_interval, settings.annotation_heartbeat)
        sinks.append(AnnotationSink(client, node, annotations, pace))
    if settings.feature_labels == "node" and client is not None:
        sinks.append(LabelsSink(client, node, features(settings), writer=writer_of(settings)))
    if settings.feature_labels == "nfd":
        folder = Path(settings.feature_file_folder)
        sinks.append(FeatureFileSink(folder, features(settings), writer=writer_of(settings)))
    return tuple(sinks)


def writer_of(settings: AgentSettings) -> str:
    """The owner of the labels. An agent that reads only some vendors may share the node with another."""
    return "-".join(("accelscope", *sorted(_only_readers(settings) or ())))


def chosen_annotations(settings: AgentSettings) -> tuple[str, ...]:
    """The enabled annotations. Those of a vendor that this agent does not read belong to another agent."""
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
    """The setting `readers`; None if it names all vendors."""
    return None if set(settings.readers) == set(declarations()) else settings.readers


def features(settings: AgentSettings) -> Features:
    machine = read_machine(settings.paths.sys)  # once: it does not change
    sizes = Sizes()

    def labels(snapshot: Snapshot) -> Mapping[str, str]:
        return feature_labels(sizes.fill_in(snapshot.devices), machine, settings.feature_domains)

    return labels


def _flag_that_needs_api_server(settings: AgentSettings) -> str | None:
    for name, enabled in settings.vendor_annotations.items():
        if enabled:
            return flag_name(name)
    if settings.devices_annotation:
        return "--devices-annotation"
    return "--feature-labels node" if settings.feature_labels == "node" else None
