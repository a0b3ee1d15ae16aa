"""Makes runners, options of attribution and sinks from the settings."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelscope.agent.runner import Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.config import ConfigError
from accelscope.config.settings import flag_name
from accelscope.kube.endpoint import Endpoint, EndpointError, in_cluster, is_loopback
from accelscope.model import Snapshot, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import open_reader

if TYPE_CHECKING:
    from accelscope.sinks.labels import Features
    from accelscope.sinks.sink import Sink
    from accelscope.vendors.common.health import ErrorHistory


def attribution_options(
    settings: AgentSettings, node: str, environ: Mapping[str, str] = os.environ
) -> AttributionOptions:
    """Raises ConfigError if the chosen source of pods is not available."""
    try:
        api_server = _api_server(settings, environ)
    except EndpointError as error:
        raise ConfigError(f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: {error}") from None
    pods = PodSource(settings.pod_source)
    if pods is PodSource.AUTO:
        pods = PodSource.API_SERVER if api_server is not None else PodSource.OFF
    if pods is PodSource.API_SERVER and api_server is None:
        raise ConfigError("--pod-source api-server: not in a Kubernetes cluster; set --kube-api-url")
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
    # The kubelet's certificate is valid for the node's name, rarely for the loopback address.
    on_this_machine = is_loopback(Endpoint(settings.kubelet_address).host)
    return Endpoint(
        settings.kubelet_address,
        server_name=node if on_this_machine else None,
        token_file=settings.kube_token_file or None,
        ca_file=settings.kubelet_ca_file or settings.kube_ca_file or None,
        skip_tls_verify=settings.kubelet_insecure_skip_tls_verify,
    )


def make_runners(
    settings: AgentSettings, changed: threading.Condition, *, once: bool = False
) -> list[Runner]:
    """One runner per vendor in `readers`. They share the condition `changed`."""
    errors = stored_errors(settings)
    return [
        make_runner(Vendor(name), settings, changed, once=once, errors=errors) for name in settings.readers
    ]


def make_runner(
    vendor: Vendor,
    settings: AgentSettings,
    changed: threading.Condition,
    *,
    once: bool = False,
    errors: "Mapping[str, ErrorHistory]",
) -> Runner:
    """`errors`: of an earlier agent, by the id of the device. `once`: for commands that read the node only
    once. The survey waits for the first result of background tools, but at most as long as a tool may run, so
    that it keeps its own deadline."""
    options, deadlines = settings.reader_options, settings.deadlines
    if once:
        seconds = options.tool_timeout_seconds
        options = replace(options, first_answer_seconds=seconds)
        deadlines = replace(deadlines, pass_seconds=deadlines.pass_seconds + seconds)
    return Runner(
        open_reader(vendor, options),
        deadlines=deadlines,
        changed=changed,
        expected=settings.expected_devices,
        paths=settings.paths,
        histories={device: history for device, history in errors.items() if device.startswith(f"{vendor}:")},
    )


def stored_errors(settings: AgentSettings) -> "Mapping[str, ErrorHistory]":
    """Lasting errors of devices that an agent stored, by the id of the device."""
    if settings.state_folder is None:
        return {}
    from accelscope.agent.health_state import read_errors  # noqa: PLC0415 - saves memory

    return read_errors(Path(settings.state_folder), time.time())


# --- sinks ----------------------------------------------------------------
# Their modules are imported here: most agents write nothing to the Node object.


def make_sinks(settings: AgentSettings, node: str, api_server: Endpoint | None) -> "tuple[Sink[Any], ...]":
    """Raises ConfigError if a sink needs an API server and there is none."""
    flag = _flag_that_needs_api_server(settings)
    if flag is not None and api_server is None:
        raise ConfigError(f"{flag}: not in a Kubernetes cluster; set --kube-api-url")
    from accelscope.kube.client import Client  # noqa: PLC0415
    from accelscope.sinks.annotation import AnnotationSink  # noqa: PLC0415
    from accelscope.sinks.labels import FeatureFileSink, LabelsSink  # noqa: PLC0415
    from accelscope.sinks.sink import WriteIntervals  # noqa: PLC0415

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
        from accelscope.sinks.documents import devices_annotation  # noqa: PLC0415

        chosen.append(devices_annotation(_only_readers(settings)))
    return tuple(chosen)


def _only_readers(settings: AgentSettings) -> tuple[str, ...] | None:
    """The setting `readers`; None if it names all vendors."""
    return None if set(settings.readers) == set(declarations()) else settings.readers


def features(settings: AgentSettings) -> "Features":
    from accelscope.sinks.documents import Sizes, feature_labels, read_machine  # noqa: PLC0415

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
