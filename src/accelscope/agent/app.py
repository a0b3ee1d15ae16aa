"""The agent's process: connects settings, readers, collection loop, sinks and server, and handles signals."""

import logging
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, make_runners
from accelscope.agent.collector import CollectionInterval, Collector
from accelscope.agent.pages import Pages
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.attribution.ledger import StoredIdleTime
from accelscope.attribution.usage import UsageKey
from accelscope.config import Change, ConfigError, LoadedSettings, Reloader
from accelscope.config.log import configure, fields
from accelscope.config.settings import flag_name, key_name
from accelscope.files import FileWatch, warn_world_readable
from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition, patterns_without_family
from accelscope.model import SinkState, Snapshot
from accelscope.process import EndSignals
from accelscope.serve import Server, Tls, TokenFile
from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools

if TYPE_CHECKING:
    from accelscope.agent.token_review import TokenReviewGuard
    from accelscope.kube.endpoint import Endpoint
    from accelscope.sinks.sink import Sink

log = logging.getLogger(__name__)

_PAGE_SETTINGS = frozenset(
    {
        "dialect",
        *(key_name(option.name) for option in dialects.OPTIONS),
        "metricAllowlist",
        "metricDenylist",
        "maxProcessSeries",
    }
)


class Agent:
    def __init__(
        self,
        loaded: LoadedSettings[AgentSettings],
        arguments: Mapping[str, object],
        environ: Mapping[str, str],
    ) -> None:
        settings = loaded.settings
        self._reloader = Reloader(loaded, arguments, environ)
        changed = threading.Condition()
        self._runners = make_runners(settings, changed)
        self._dialect_files = tuple(map(FileWatch, settings.dialect_files))
        self.pages = Pages(
            _exposition(settings),
            metrics_path=settings.metrics_path,
            moved_at=lambda: self.collector.moved_at,
        )
        node = settings.node_name or socket.gethostname()
        attribution = attribution_options(settings, node, environ)
        stored_idle, state_sinks = _idle_state(settings.state_folder)
        self._attributor = Attributor(attribution, stored_idle=stored_idle)
        if settings.state_folder is not None:
            from accelscope.agent.health_state import HealthStateSink  # noqa: PLC0415 - saves memory

            sink = HealthStateSink(Path(settings.state_folder), self._runners, changed)
            state_sinks = (*state_sinks, sink)
        self._sinks = (*_sinks(settings, node, attribution.api_server), *state_sinks)
        self._guard = _token_review(attribution.api_server) if settings.token_review else None
        self.collector = Collector(
            self._runners,
            self._attributor,
            node=node,
            version=__version__,
            pace=CollectionInterval(settings.collection_interval),
            changed=changed,
            publish=self._publish,
            between=self._apply_changes,
            sinks=self._sink_states,
            token_reviews=lambda: self._guard.reviews if self._guard is not None else (),
        )
        self.collector.labels = tuple(settings.labels.items())
        self.server = Server(
            self.pages.routes(),
            host=settings.exporter_host,
            port=settings.exporter_port,
            tls=_tls(settings),
            auth=TokenFile(settings.token_file) if settings.token_file else None,
            guard=self._guard,
        )

    def start(self) -> None:
        self.server.start()
        if self._guard is not None:
            self._guard.start()
        self._attributor.start()
        for sink in self._sinks:
            sink.start()
        threading.Thread(target=self.collector.run, name="collector", daemon=True).start()

    def stop(self) -> None:
        self.collector.stop()
        for sink in self._sinks:
            sink.stop()
        end_running_tools()
        self.server.stop()
        if self._guard is not None:
            self._guard.stop()

    def _publish(self, snapshot: Snapshot) -> None:
        self.pages.publish(snapshot)
        for sink in self._sinks:
            sink.offer(snapshot)

    def _sink_states(self) -> tuple[SinkState, ...]:
        return tuple(sink.state for sink in self._sinks)

    def _apply_changes(self) -> None:
        change = self._reloader.poll()
        if change is not None and change.error is not None:
            change.write_to(log)
            self.collector.count_reload("rejected")
        elif change is not None:
            self._apply(change)
        changed = [watch.changed() for watch in self._dialect_files]  # all of them: the call resets the state
        if any(changed):
            self._reload_dialect_files()

    def _reload_dialect_files(self) -> None:
        if self._renew_page(self._reloader.settings):
            log.info("counters file reloaded")
            self.collector.count_reload("applied")
        else:
            self.collector.count_reload("rejected")

    def _renew_page(self, settings: AgentSettings) -> bool:
        """Returns False and keeps the current page if a dialect's file is invalid."""
        try:
            self.pages.exposition = _exposition(settings)
        except ConfigError as error:
            log.error("invalid dialect file, the metrics page is unchanged: %s", error)  # noqa: TRY400
            return False
        return True

    def _apply(self, change: Change[AgentSettings]) -> None:
        settings = change.settings
        configure(settings.log_level, settings.log_format)
        self.collector.pace = CollectionInterval(settings.collection_interval)
        self.collector.labels = tuple(settings.labels.items())
        self._attributor.set_ratios(settings.shares.devices, settings.shares.models)
        if _PAGE_SETTINGS & set(change.changed):  # only then: a new page resets the counters of dialects
            self._dialect_files = tuple(map(FileWatch, settings.dialect_files))
            self._renew_page(settings)
        for runner in self._runners:
            runner.deadlines = settings.deadlines
            runner.expected = settings.expected_devices
        change.write_to(log)
        self.collector.count_reload("applied")


def run(
    loaded: LoadedSettings[AgentSettings], arguments: Mapping[str, object], environ: Mapping[str, str]
) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings = loaded.settings
    configure(settings.log_level, settings.log_format)
    loaded.log_deprecated(log)
    agent = Agent(loaded, arguments, environ)
    signals = EndSignals()
    agent.start()
    host, port = agent.server.address[:2]
    log.info(
        "accelscope agent %s serves %s",
        __version__,
        settings.metrics_path,
        extra=fields(port=port, host=host),
    )
    if settings.token_file is None and settings.tls_client_ca is None and not settings.token_review:
        log.info(
            "no authentication: anyone who can reach the port can read the metrics; set --token-review, "
            "--token-file or --tls-client-ca to restrict access"
        )
    if settings.token_review and settings.tls_certificate is None:
        log.warning("ServiceAccount tokens are sent unencrypted: set --tls-certificate and --tls-key")
    warn_world_readable("the private key", [settings.tls_key])
    warn_world_readable("the tokens", [settings.token_file])
    warn_world_readable("the agent's own token", [settings.kube_token_file])
    for server, unchecked in (
        ("API server", settings.kube_insecure_skip_tls_verify),
        ("kubelet", settings.kubelet_insecure_skip_tls_verify),
    ):
        if unchecked:
            log.warning(
                "TLS verification of the %s is off: any server there receives the agent's token", server
            )
    log.info("%s: stopping", signals.wait())
    start_no_more_tools()
    agent.stop()
    return 0


def _sinks(settings: AgentSettings, node: str, api_server: "Endpoint | None") -> "tuple[Sink[Any], ...]":
    if not (
        any(settings.vendor_annotations.values())
        or settings.devices_annotation
        or settings.feature_labels != "off"
    ):
        return ()
    from accelscope.agent.assembly import make_sinks  # noqa: PLC0415 - saves memory where sinks are off

    return make_sinks(settings, node, api_server)


def _idle_state(folder: str | None) -> "tuple[dict[UsageKey, StoredIdleTime], tuple[Sink[Any], ...]]":
    """Idle times that an earlier agent stored, and the sink that stores them from now on."""
    if folder is None:
        return {}, ()
    from accelscope.sinks.idle_state import IdleStateSink, read_idle_times  # noqa: PLC0415 - saves memory

    now = time.time()
    times = read_idle_times(Path(folder), now)
    kept = {
        UsageKey(*holder[:-1]): StoredIdleTime(holder.pod_uid, seconds)
        for holder, seconds in times.at(now).items()
    }
    return kept, (IdleStateSink(Path(folder), times),)


def _exposition(settings: AgentSettings) -> Exposition:
    """Raises ConfigError if a dialect's file is invalid."""
    chosen = settings.load_dialects()
    for dialect in chosen:
        for item in dialect.unavailable:
            log.warning("%s: %s", flag_name(item.option), item)
    for option, patterns in (
        ("--metric-allowlist", settings.metric_allowlist),
        ("--metric-denylist", settings.metric_denylist),
    ):
        for pattern in patterns_without_family(patterns, chosen):
            log.warning("%s: no metric matches %s", option, pattern)
    return Exposition(
        dialects=chosen,
        allow=settings.metric_allowlist,
        deny=settings.metric_denylist,
        max_process_series=settings.max_process_series,
    )


def _token_review(api_server: "Endpoint | None") -> "TokenReviewGuard":
    if api_server is None:
        raise ConfigError("--token-review: not in a Kubernetes cluster; set --kube-api-url")
    from accelscope.agent.token_review import (  # noqa: PLC0415 - saves memory where it is off
        ApiServerReviewer,
        TokenReviewGuard,
    )

    return TokenReviewGuard(ApiServerReviewer(api_server))


def _tls(settings: AgentSettings) -> Tls | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Tls(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
