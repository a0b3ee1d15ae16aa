"""What the settings mean for attribution."""

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelscope.agent.runner import Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.config import ConfigError
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError, in_cluster, is_loopback
from accelscope.model import Snapshot, Vendor
from accelscope.sinks.annotation import AnnotationSink
from accelscope.sinks.documents import devices_annotation
from accelscope.sinks.features import Sizes, feature_labels, read_machine
from accelscope.sinks.labels import FeatureFileSink, Features, LabelsSink
from accelscope.sinks.sink import Pace, Sink
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import open_reader


def attribution_options(
    settings: AgentSettings, node: str, environ: Mapping[str, str] = os.environ
) -> AttributionOptions:
    """Raises ConfigError for a source of pods that is asked for and cannot be found."""
    try:
        api_server = _api_server(settings, environ)
    except EndpointError as error:
        raise ConfigError(f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: {error}") from None
    pods = PodSource(settings.pod_source)
    if pods is PodSource.AUTO:
        pods = PodSource.API_SERVER if api_server is not None else PodSource.OFF
    if pods is PodSource.API_SERVER and api_server is None:
        raise ConfigError("--pod-source api-server: not in a cluster; give --kube-api-url")
    return AttributionOptions(
        node=node,
        proc=settings.paths.proc,
        passwd=Path(settings.passwd_file),
        pods=pods,
        api_server=api_server,
        kubelet=_kubelet(settings, node) if pods is PodSource.KUBELET else None,
        pod_resources_socket=settings.pod_resources_socket or None,
        resource_slices=settings.resource_slices,
        pod_labels=settings.pod_labels,
        node_labels=settings.node_labels,
        ratio_file=Path(settings.gpu_allocation_file) if settings.gpu_allocation_file else None,
        device_ratios=settings.shares.devices,
        model_ratios=settings.shares.models,
        job_mapping_folder=Path(settings.job_mapping_folder) if settings.job_mapping_folder else None,
    )


def _api_server(settings: AgentSettings, environ: Mapping[str, str]) -> Endpoint | None:
    token, ca = settings.kube_token_file or None, settings.kube_ca_file or None
    if settings.kube_api_url:
        found: Endpoint | None = Endpoint(settings.kube_api_url, token, ca)
    else:
        found = in_cluster(environ, token, ca)
    if found is not None and settings.kube_insecure_skip_tls_verify:
        return replace(found, skip_tls_verify=True)
    return found


def _kubelet(settings: AgentSettings, node: str) -> Endpoint:
    """A kubelet's certificate names the node, and hardly ever the loopback address."""
    on_this_machine = is_loopback(Endpoint(settings.kubelet_address).host)
    return Endpoint(
        settings.kubelet_address,
        server_name=node if on_this_machine else None,
        token_file=settings.kube_token_file or None,
        ca_file=settings.kubelet_ca_file or settings.kube_ca_file or None,
        skip_tls_verify=settings.kubelet_insecure_skip_tls_verify,
    )


# --- runners ------------------------------------------------------------
# What the settings mean for readers: one runner for each vendor that is looked for.


def make_runners(
    settings: AgentSettings, changed: threading.Condition, *, once: bool = False
) -> list[Runner]:
    """`changed` is the condition that they share; `once` as for one of them."""
    return [make_runner(Vendor(name), settings, changed, once=once) for name in settings.readers]


def make_runner(
    vendor: Vendor, settings: AgentSettings, changed: threading.Condition, *, once: bool = False
) -> Runner:
    """`once`: for a look that no other follows, so that tools beside the readings are waited for, though not
    longer than for any other tool: a survey that needs none of them must not miss its deadline by it."""
    options, deadlines = settings.reader_options, settings.deadlines
    if once:
        seconds = options.tool_timeout_seconds
        options = replace(options, first_answer_seconds=seconds)
        deadlines = replace(deadlines, pass_seconds=deadlines.pass_seconds + seconds)
    return Runner(
        open_reader(vendor, options), deadlines=deadlines, changed=changed, expected=settings.expected_devices
    )


# --- sinks ------------------------------------------------------------
# What the settings mean for sinks.


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
