"""The device plugin as a process: connects settings, driver, offers, kubelet and HTTP server."""

import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelscope import __version__
from accelscope.config import Change, LoadedSettings, Reloader
from accelscope.config.log import configure, fields
from accelscope.deviceplugin.health import HealthLedger
from accelscope.deviceplugin.kubelet import Allocations, Registration, Timeouts, check_folder
from accelscope.deviceplugin.metrics import PluginPages, PluginView, Tally
from accelscope.deviceplugin.offers import DisabledFilter, Inventory, Policy, make_offers
from accelscope.deviceplugin.service import PluginService
from accelscope.deviceplugin.settings import DisabledDevice, PluginSettings
from accelscope.deviceplugin.vendor import (
    AllocatedDevice,
    ContainerEdits,
    StickyVendorPlugin,
    core_name_parser,
    open_vendor,
    plugin_declarations,
)
from accelscope.deviceplugin.watch import CheckResult, DriverWatch
from accelscope.model import Vendor
from accelscope.process import EndSignals
from accelscope.serve import Server
from accelscope.vendors.common.contract import ReaderError, open_reader
from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.5
_STUCK_SECONDS = 60.0
_END_SECONDS = 1.0  # for threads to end; a thread that is blocked in a driver is abandoned


class Plugin:
    """Runs two threads: `watch` checks the devices and may be delayed by the driver, `plugin` follows the
    settings file and the kubelet."""

    def __init__(
        self,
        loaded: LoadedSettings[PluginSettings],
        arguments: Mapping[str, object],
        environ: Mapping[str, str],
        *,
        timeouts: Timeouts | None = None,
    ) -> None:
        settings = loaded.settings
        self._reloader = Reloader(loaded, arguments, environ)
        self._settings = settings
        self._node = settings.node_name or socket.gethostname()
        vendor = Vendor(settings.vendor)
        self._partition_cores = plugin_declarations()[vendor].partition_cores
        self._named_cores = core_name_parser(vendor)
        self._plugin = StickyVendorPlugin(open_vendor(vendor, settings.roots))
        self._watch = DriverWatch(
            open_reader(vendor, settings.reader_options),
            survey_seconds=settings.reader_timeout,
            device_seconds=settings.device_timeout,
            paths=settings.reader_options.paths,
        )
        self._ledger = HealthLedger(settings.health_rule)
        self._ledger_lock = threading.Lock()
        self._resource = settings.resource_name  # empty until the devices determine the default
        self._layout = self._wanted_layout = settings.layout  # in force; of the last valid file
        self._logged_withheld: tuple[str, ...] = ()
        self._retained: tuple[str, ...] = ()  # ids that are offered because containers hold them
        self._waits_for_kubelet = False  # the wanted layout waits until the allocated devices are known
        self._allocations = Allocations(settings.pod_resources_socket)
        self._first_answer_seconds = (timeouts or Timeouts()).first_answer
        self._first_offer_due: float | None = None  # set while the first offer waits for the kubelet
        self._may_offer = False
        self._matched: tuple[DisabledDevice, ...] = ()  # disabled devices whose unmatched names were logged
        self._inventory = Inventory()
        self._tally = Tally()
        self._registration = Registration(
            folder=Path(settings.plugin_dir),
            endpoint_name=settings.endpoint_name,
            pod_resources=Path(settings.pod_resources_socket) if settings.pod_resources_socket else None,
            handlers=PluginService(
                self._inventory, self._tally, self._container_edits, self._allocations.note
            ).handlers(),
            tally=self._tally,
            timeouts=timeouts,
        )
        self._stopped = threading.Event()
        self._checked = threading.Event()
        self._check_now = threading.Event()  # set when the interval changed or the plugin stops
        self._wake = threading.Event()  # set when there is something to register or the plugin stops
        self._progress_at = time.monotonic()
        self._threads = (
            threading.Thread(target=self._check_devices, name="watch", daemon=True),
            threading.Thread(target=self._follow_kubelet, name="plugin", daemon=True),
        )
        pages = PluginPages(self._view, alive=self._stuck, ready=self._not_ready)
        self.server = Server(pages.routes(), host=settings.exporter_host, port=settings.exporter_port)

    def start(self) -> None:
        """Raises PluginSocketError for an unusable folder, ServeError for an unusable port."""
        check_folder(Path(self._settings.plugin_dir))
        self.server.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        self._check_now.set()
        self._inventory.close()
        self._registration.stop()
        self._watch.close()
        end_running_tools()
        self.server.stop()
        end = time.monotonic() + _END_SECONDS
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(max(0.0, end - time.monotonic()))

    def _check_devices(self) -> None:
        logged = ""
        while not self._stopped.is_set():
            try:
                result = self._watch.check()
                self._allocations.refresh()
                with self._ledger_lock:
                    self._ledger.record(self._with_lost_files_failed(result))
                    if self._waits_for_kubelet:
                        self._update_layout()
                    self._publish()
            except Exception:  # the loop continues after a bug; the offers stay as they were
                log.exception("unexpected error while checking the devices")
            reason = self._watch.state.reason or ""
            if reason != logged:
                logged = reason
                log.log(
                    logging.WARNING if reason and self._watch.state.found else logging.INFO,
                    "%s: %s",
                    self._settings.vendor,
                    reason or "the driver answers",
                )
            if not self._checked.is_set():
                self._checked.set()
                self._wake.set()
            self._check_now.wait(self._settings.interval)
            self._check_now.clear()

    def _with_lost_files_failed(self, result: CheckResult) -> CheckResult:
        """A device that answers but has lost its files counts as failed."""
        cores = self._layout.division.cores_per_unit
        lost = {
            device.id: ReaderError("no_files", "its device files are missing")
            for device in result.devices
            if self._plugin.has_lost_files(device, self._resource, cores)
        }
        if not lost:
            return result
        answered = tuple(device for device in result.devices if device.id not in lost)
        return replace(result, devices=answered, failed={**result.failed, **lost})

    def _publish(self) -> None:
        """The caller holds the ledger's lock."""
        devices = tuple(self._ledger.listed())
        if devices and not self._may_offer:
            self._may_offer = self._is_first_offer_due()
            if not self._may_offer:
                return
        if not self._resource and devices:
            self._resource = self._plugin.default_resource(
                [each.device for each in devices], self._layout.division.partition_cores
            )
        policy = Policy(
            resource=self._resource,
            disabled=DisabledFilter(self._settings.disabled_devices, self._node, self._named_cores),
            division=self._layout.division,
            shares=self._layout.shares,
            cdi=self._settings.cdi,
            partition_cores=self._partition_cores,
        )
        allocated = self._allocations.allocated(self._resource)
        offers = make_offers(devices, self._plugin, policy, self._settings.roots.sys, allocated)
        if offers.retained != self._retained:
            for each in sorted({*offers.retained} - {*self._retained}):
                log.warning("%s is allocated: its device stays offered as it is until it is free", each)
            self._retained = offers.retained
        if offers.withheld != self._logged_withheld:
            self._logged_withheld = offers.withheld
            for line in offers.withheld:
                log.warning("not offered: %s", line)
        if devices and self._matched != self._settings.disabled_devices:
            self._matched = self._settings.disabled_devices
            if offers.unmatched:
                log.warning("disabledDevices: nothing on this node matches %s", ", ".join(offers.unmatched))
        self._inventory.publish(offers)

    def _is_first_offer_due(self) -> bool:
        """Before the kubelet's first answer the allocated devices are unknown: an offer could contain the
        cores of a card that is allocated whole. Waits for that answer, but not forever."""
        if not self._allocations.awaits_first_answer:
            self._first_offer_due = None
            return True
        now = time.monotonic()
        if self._first_offer_due is None:
            self._first_offer_due = now + self._first_answer_seconds
            log.warning(
                "the allocated devices are unknown (%s): nothing is offered for up to %.0f s",
                self._allocations.unknown,
                self._first_answer_seconds,
            )
        if now < self._first_offer_due:
            return False
        self._first_offer_due = None
        log.warning(
            "the allocated devices are still unknown (%s): all devices are offered as if none were allocated",
            self._allocations.unknown,
        )
        return True

    def _follow_kubelet(self) -> None:
        while not self._stopped.is_set():
            self._progress_at = time.monotonic()
            try:
                self._reload_settings()
                # A node that never had a device does not register the resource.
                offered = bool(self._inventory.by_id)
                if self._checked.is_set() and (offered or self._tally.total("registrations")):
                    self._registration.tick(self._resource)
            except Exception:  # the loop continues after a bug
                log.exception("unexpected error while registering with the kubelet")
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()

    def _reload_settings(self) -> None:
        change = self._reloader.poll()
        if change is None:
            return
        if change.error is not None:
            change.write_to(log)
            self._tally.count("reloads", "rejected")
            return
        self._apply(change)

    def _apply(self, change: Change[PluginSettings]) -> None:
        settings = change.settings
        configure(settings.log_level, settings.log_format)
        if settings.layout != self._layout:
            self._allocations.refresh()
        with self._ledger_lock:
            self._settings = settings
            self._ledger.rule = settings.health_rule
            waiting, withdrawn = self._change_layout(settings)
            if self._checked.is_set():
                self._publish()
        if "interval" in change.changed:
            self._check_now.set()
        unchanged = {*withdrawn, *self._wanted_layout.differing_keys(self._layout)}
        replace(
            change,
            changed=tuple(key for key in change.changed if key not in unchanged),
            needs_restart=(*change.needs_restart, *waiting),
            restart_withdrawn=(*change.restart_withdrawn, *withdrawn),
        ).write_to(log)
        self._tally.count("reloads", "applied")

    def _change_layout(self, settings: PluginSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the keys that need a restart from now on, and those that no longer do. A layout of another
        resource needs one: a pod that requests whole cards must not get a part of one."""
        before, waited = self._layout, self._wanted_layout.differing_keys(self._layout)
        wanted = settings.layout
        changed = wanted.differing_keys(self._wanted_layout)
        self._wanted_layout = wanted
        resource = self._update_layout()
        waiting = tuple(key for key in wanted.differing_keys(self._layout) if key in changed)
        if waiting and self._waits_for_kubelet:
            log.warning(
                "the allocated devices are unknown (%s): %s waits until they are known, or for a restart",
                self._allocations.unknown,
                ", ".join(waiting),
            )
        elif waiting:
            log.warning("with the new settings the resource would be %s, not %s", resource, self._resource)
        return waiting, tuple(key for key in waited if key not in wanted.differing_keys(before))

    def _update_layout(self) -> str:
        """Apply as much of the wanted layout as possible, and return the resource that it belongs to. The
        caller holds the ledger's lock."""
        wanted = self._wanted_layout
        devices = [each.device for each in self._ledger.listed()]
        resource = self._settings.resource_name or self._plugin.default_resource(
            devices, wanted.division.partition_cores
        )
        same_resource = self._resource in ("", resource)
        possible = wanted if same_resource else replace(self._layout, shares=wanted.shares)
        unknown = self._allocations.unknown is not None and bool(self._inventory.by_id)
        waited, self._waits_for_kubelet = self._waits_for_kubelet, unknown and possible != self._layout
        if not self._waits_for_kubelet:
            if waited and possible != self._layout:
                keys = ", ".join(possible.differing_keys(self._layout))
                log.info("settings that no longer need a restart: %s", keys)
            self._layout = possible
        return resource

    def _container_edits(self, allocated: list[AllocatedDevice]) -> ContainerEdits:
        return self._plugin.container_edits(allocated, cdi=self._settings.cdi)

    def _stuck(self) -> str | None:
        seconds = time.monotonic() - self._progress_at
        return f"the loop made no progress for {seconds:.0f} s" if seconds > _STUCK_SECONDS else None

    def _not_ready(self) -> str | None:
        if not self._checked.is_set():
            return "the devices were not checked yet"
        if self._first_offer_due is not None:
            return f"the allocated devices are unknown: {self._allocations.unknown}"
        if not self._registration.registered and not self._inventory.by_id:
            state = self._watch.state
            if state.found and not state.up and not self._tally.total("registrations"):
                return f"{self._settings.vendor}: {state.reason}"
            return None  # there is nothing to offer on this node
        return self._registration.trouble

    def _view(self) -> PluginView:
        offers, tally = self._inventory.offers, self._tally
        healthy = sum(offer.healthy for offer in offers.offers)
        return PluginView(
            version=__version__,
            node=self._node,
            vendor=self._settings.vendor,
            resource=self._resource,
            registered=self._registration.registered,
            listening=tally.listening,
            reader=self._watch.state,
            healthy=offers.healthy,
            unhealthy=offers.unhealthy,
            disabled=offers.disabled,
            withheld=len(offers.withheld),
            healthy_offers=healthy,
            unhealthy_offers=len(offers.offers) - healthy,
            registrations=tally.total("registrations"),
            registration_errors=tally.by_reason("registration_errors"),
            allocations=tally.total("allocations"),
            allocation_errors=tally.by_reason("allocation_errors"),
            preferred=tally.total("preferred"),
            stream_seconds=tally.stream_seconds,
            since_listened_seconds=tally.since_listened_seconds,
            config_reloads=tally.by_reason("reloads"),
        )


def run(
    loaded: LoadedSettings[PluginSettings], arguments: Mapping[str, object], environ: Mapping[str, str]
) -> int:
    """Serve until SIGTERM or SIGINT. Raises PluginSocketError and ServeError."""
    settings = loaded.settings
    configure(settings.log_level, settings.log_format)
    loaded.log_deprecated(log)
    plugin = Plugin(loaded, arguments, environ)
    signals = EndSignals()
    plugin.start()
    log.info(
        "accelscope device-plugin %s started for vendor %s",
        __version__,
        settings.vendor,
        extra=fields(port=plugin.server.address[1], folder=settings.plugin_dir),
    )
    name = signals.wait()
    log.info("%s: stopping; containers keep their devices", name)
    start_no_more_tools()
    plugin.stop()
    return 0
