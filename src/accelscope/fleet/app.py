"""The fleet process: settings, engine, API, signals."""

import asyncio
import errno
import gc
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import web

from accelscope import __version__
from accelscope.certificates import CertificateError, CertificateFiles
from accelscope.config import ConfigError, LoadedSettings, Reloader
from accelscope.config.log import configure, fields
from accelscope.files import warn_world_readable
from accelscope.fleet.api.access import AccessControl, ClusterTokenReviews, TokensFile, check_exposure
from accelscope.fleet.api.app import ApiListener, listen, make_app
from accelscope.fleet.api.problem import ApiLimits
from accelscope.fleet.clusters import ClusterEntry, ClustersFile
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.kubeconfig import default_clusters
from accelscope.fleet.metrics import FleetView, render, view_of
from accelscope.fleet.refresh import ClusterList, Engine
from accelscope.fleet.settings import FleetSettings
from accelscope.fleet.sources.prometheus.stored_history import StoredHistory
from accelscope.fleet.sources.round import Pacing
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends import Trends
from accelscope.kube.endpoint import is_loopback
from accelscope.rate_limit import Rate

log = logging.getLogger(__name__)

_STATE_FILE = "history.accelscope"
_SAVE_MINUTES = 10
_CHECK_FILES_SECONDS = 2.0
_RING_SECONDS = 3600.0  # history kept in memory for each device


class _FixedClusterList:
    """A list of clusters that does not come from a file."""

    def __init__(self, entries: tuple[ClusterEntry, ...]) -> None:
        self._entries = entries

    def changed(self) -> bool:
        return False

    def load(self) -> tuple[ClusterEntry, ...]:
        return self._entries


class FleetProcess:
    """Create and use it in a running loop."""

    def __init__(
        self,
        loaded: LoadedSettings[FleetSettings],
        arguments: Mapping[str, object],
        environ: Mapping[str, str],
    ) -> None:
        """Raises ConfigError."""
        self._settings = settings = loaded.settings
        self._reloader = Reloader(loaded, arguments, environ)
        self._started_at = time.time()
        self.store = FleetStore(
            stale_after_seconds=settings.stale_after_seconds,
            forget_after_seconds=settings.forget_after_seconds,
        )
        self._state = _state_file(settings.state_folder)
        self._history = FleetHistory()
        self._trends = Trends(self._history)
        clusters = _cluster_list(settings, environ)
        self.engine = Engine(
            self.store,
            clusters,
            pacing=Pacing(
                interval_seconds=settings.refresh_interval,
                timeout_seconds=settings.request_timeout,
                concurrency=settings.agents_at_once,
                per_second=settings.agents_per_second,
            ),
            each_minute=self._each_minute,
            each_list=self._each_list,
        )
        self._stored_history = StoredHistory(loop_throttle=self.engine.loop_throttle)
        self._recorded = asyncio.Event()  # set after the first minute
        self._certificate = _certificate(settings)
        self._limits = ApiLimits(
            requests=Rate(per_second=settings.requests_per_second, burst=settings.requests_burst),
            streams=settings.max_streams,
        )
        reviewer = settings.token_review_cluster
        self._reviews = ClusterTokenReviews(reviewer, clusters.load()) if reviewer else None
        self._access = AccessControl(
            tokens=TokensFile(settings.tokens_file) if settings.tokens_file is not None else None,
            reviews=self._reviews,
            local=is_loopback(settings.listen_host),
        )
        check_exposure(
            host=settings.listen_host,
            guarded=self._access.guarded,
            insecure_no_auth=settings.insecure_no_auth,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set. Raises ConfigError if the port cannot be used."""
        async with AsyncExitStack() as stack:
            if self._state is not None:
                self._history.load(self._state)
                stack.push_async_callback(self._history.save, self._state)
            stack.push_async_callback(self._stored_history.close)
            listener = await self._listen()
            stack.push_async_callback(listener.close)
            self._log_start(listener)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(each)
                    for each in (self.engine.run(), self._watch_files(), self._fill_history())
                ]
                await stop.wait()
                log.info("stopping")
                for task in tasks:
                    task.cancel()

    async def _listen(self) -> ApiListener:
        settings = self._settings
        app = make_app(
            self.store,
            self._history,
            self._access,
            refresh=self.engine.refresh,
            read_whole=self.engine.read_whole,
            metrics=lambda: render(self._view(app)).text,
            unready=self.engine.unready,
            stored_history=self._stored_history,
            limits=self._limits,
        )
        try:
            return await listen(
                app,
                host=settings.listen_host,
                port=settings.listen_port,
                tls=None if self._certificate is None else self._certificate.following_context(),
                limits=self._limits,
            )
        except OSError as error:
            where = f"{settings.listen_host}:{settings.listen_port}"
            # asyncio's text repeats the address; resolver errors have negative numbers.
            cause = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            hint = "; choose another with --listen-port" if error.errno == errno.EADDRINUSE else ""
            raise ConfigError(f"cannot listen on {where}: {cause}{hint}") from None

    def _view(self, app: web.Application) -> FleetView:
        return view_of(
            self.store,
            self.engine,
            self._access,
            app,
            started_at=self._started_at,
            unusual=self._trends.unusual,
            without_history=self._history.dropped,
        )

    def _log_start(self, listener: ApiListener) -> None:
        host = self._settings.listen_host
        scheme = "http" if self._certificate is None else "https"
        shown = f"[{host}]" if ":" in host else host or "localhost"
        log.info(
            "accelscope fleet %s serves %d clusters",
            __version__,
            len(self.store.clusters),
            extra=fields(url=f"{scheme}://{shown}:{listener.port}", auth=self._access.guarded),
        )
        warn_world_readable("the private key", [self._settings.tls_key])

    async def _each_list(self, entries: Sequence[ClusterEntry]) -> None:
        files = (path for entry in entries for path in entry.secret_files)
        warn_world_readable("the credentials of a cluster", files)
        await self._stored_history.declare(entries)
        if self._reviews is not None:
            await self._reviews.declare(entries)

    async def _each_minute(self, now: float) -> None:
        await self._history.record(self.store, now)
        self._recorded.set()
        await self._trends.update(self.store)
        if self._state is not None and int(now // 60) % _SAVE_MINUTES == 0:
            await self._history.save(self._state)

    async def _fill_history(self) -> None:
        """Loads the last hour of devices from stores, once. In its own task, so that a slow store delays
        nothing."""
        await self._recorded.wait()
        now = time.time()
        try:
            await self._history.fill(await self._stored_history.devices(now - _RING_SECONDS, now))
        except Exception:
            log.exception("unexpected error while loading history from stores")

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_FILES_SECONDS)
            try:
                self._reload_files()
            except Exception:
                log.exception("unexpected error while reloading changed files")

    def _reload_files(self) -> None:
        if self._certificate is not None:
            self._certificate.refresh()
        change = self._reloader.poll()
        if change is None:
            return
        configure(change.settings.log_level, change.settings.log_format)
        change.write_to(log)


def _certificate(settings: FleetSettings) -> CertificateFiles | None:
    """Raises ConfigError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    try:
        return CertificateFiles(settings.tls_certificate, settings.tls_key)
    except CertificateError as error:
        raise ConfigError(str(error)) from error


def _cluster_list(settings: FleetSettings, environ: Mapping[str, str]) -> ClusterList:
    """Raises ConfigError."""
    if settings.kubeconfig:
        environ = {**environ, "KUBECONFIG": settings.kubeconfig}
    if settings.clusters_file is not None:
        return ClustersFile(settings.clusters_file, environ)
    return _FixedClusterList(default_clusters(environ, settings.kube_context or None))


def _state_file(folder: str | None) -> Path | None:
    """Raises ConfigError if the folder is not writable."""
    if folder is None:
        return None
    path = Path(folder)
    if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"--state-folder: {folder} is not a writable folder")
    return path / _STATE_FILE


def run(
    loaded: LoadedSettings[FleetSettings], arguments: Mapping[str, object], environ: Mapping[str, str]
) -> int:
    """Serves until SIGTERM or SIGINT. Raises ConfigError."""
    configure(loaded.settings.log_level, loaded.settings.log_format)
    loaded.log_deprecated(log)
    # A reading is thousands of objects without cycles. With Python's default thresholds the collector took a
    # tenth of a refresh of 10,000 nodes.
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)
    asyncio.run(_serve(loaded, arguments, environ))
    return 0


async def _serve(
    loaded: LoadedSettings[FleetSettings], arguments: Mapping[str, object], environ: Mapping[str, str]
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await FleetProcess(loaded, arguments, environ).run(stop)
