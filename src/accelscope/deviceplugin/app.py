"""The device plugin as a process: settings, driver, offers, kubelet, server, signals."""

import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelscope import __version__
from accelscope.config import Change, Loaded, Reloader
from accelscope.config.log import configure, fields
from accelscope.deviceplugin.health import HealthLedger
from accelscope.deviceplugin.kubelet import Allocations, Patience, Registration, check_folder
from accelscope.deviceplugin.metrics import Pages, PluginView, Tally
from accelscope.deviceplugin.offers import Inventory, Policy, make_offers
from accelscope.deviceplugin.service import PluginService
from accelscope.deviceplugin.settings import Disabled, DisabledDevice, PluginSettings
from accelscope.deviceplugin.vendor import Edits, Given, SteadyPart, open_vendor
from accelscope.deviceplugin.watch import DriverWatch, Look
from accelscope.model import Vendor
from accelscope.process import EndSignals
from accelscope.serve import Server
from accelscope.vendors.common.contract import ReaderError, open_reader
from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.5
_STUCK_SECONDS = 60.0
_END_SECONDS = 1.0  # for threads to end; one that a driver holds up is left behind


class Plugin:
    """Two threads: one looks at the driver, which may take its time; the other keeps up with settings and
    kubelet."""

    def __init__(
        self,
        loaded: Loaded[PluginSettings],
        arguments: Mapping[str, object],
        environ: Mapping[str, str],
        *,
        patience: Patience | None = None,
    ) -> None:
        settings = loaded.settings
        self._reloader = Reloader(loaded, arguments, environ)
        self._settings = settings
        self._node = settings.node_name or socket.gethostname()
        vendor = Vendor(settings.vendor)
        self._part = SteadyPart(open_vendor(vendor, settings.roots))
        self._watch = DriverWatch(
            open_reader(vendor, settings.reader_options),
            survey_seconds=settings.reader_timeout,
            device_seconds=settings.device_timeout,
        )
        self._ledger = HealthLedger(settings.health_rule)
        self._ledger_lock = threading.Lock()
        self._resource = settings.resource_name  # empty until the devices tell what is usual
        self._cut = self._wanted_cut = settings.cut  # in force; as the last good file says
        self._said_withheld: tuple[str, ...] = ()
        self._kept: tuple[str, ...] = ()  # ids that stay as containers hold them
        self._waits_for_kubelet = False  # the last good file's cut, until it is known what is allocated
        self._allocations = Allocations(settings.pod_resources_socket)
        self._first_answer_seconds = (patience or Patience()).first_answer
        self._first_offer_due: float | None = None  # set while the first offer waits for the kubelet
        self._may_offer = False
        self._fitted: tuple[DisabledDevice, ...] = ()  # of which was said what fits nothing here
        self._inventory = Inventory()
        self._tally = Tally()
        self._registration = Registration(
            folder=Path(settings.plugin_dir),
            endpoint_name=settings.endpoint_name,
            pod_resources=Path(settings.pod_resources_socket) if settings.pod_resources_socket else None,
            handlers=PluginService(
                self._inventory, self._tally, self._edits, self._allocations.note
            ).handlers(),
            tally=self._tally,
            patience=patience,
        )
        self._stopped = threading.Event()
        self._looked = threading.Event()
        self._look_now = threading.Event()  # the time between looks may be another, or there is an end
        self._wake = threading.Event()  # there is something to register, or to end
        self._moved_at = time.monotonic()
        self._threads = (
            threading.Thread(target=self._look_at_devices, name="watch", daemon=True),
            threading.Thread(target=self._keep_up, name="plugin", daemon=True),
        )
        pages = Pages(self._view, alive=self._stuck, ready=self._not_ready)
        self.server = Server(pages.routes(), host=settings.exporter_host, port=settings.exporter_port)

    def start(self) -> None:
        """Raises EndpointError for a folder that cannot be used, ServeError for a port."""
        check_folder(Path(self._settings.plugin_dir))
        self.server.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        self._look_now.set()
        self._inventory.close()
        self._registration.stop()
        self._watch.close()
        end_running_tools()
        self.server.stop()
        end = time.monotonic() + _END_SECONDS
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(max(0.0, end - time.monotonic()))

    def _look_at_devices(self) -> None:
        said = ""
        while not self._stopped.is_set():
            try:
                look = self._watch.look()
                self._allocations.refresh()
                with self._ledger_lock:
                    self._ledger.take(self._without_files_is_failed(look))
                    if self._waits_for_kubelet:
                        self._settle_cut()
                    self._publish()
            except Exception:  # the loop outlives a fault of ours; the offers stay what they were
                log.exception("the devices could not be looked at in a way that was not foreseen")
            reason = self._watch.state.reason or ""
            if reason != said:
                said = reason
                log.log(
                    logging.WARNING if reason and self._watch.state.found else logging.INFO,
                    "%s: %s",
                    self._settings.vendor,
                    reason or "the driver answers",
                )
            if not self._looked.is_set():
                self._looked.set()
                self._wake.set()
            self._look_now.wait(self._settings.interval)
            self._look_now.clear()

    def _without_files_is_failed(self, look: Look) -> Look:
        """A device that answers, but whose files are gone, is in no better a state than one that does not."""
        lost = {
            device.id: ReaderError("no_files", "its device files are not there")
            for device in look.devices
            if self._part.has_lost_files(device, self._resource, self._cut.cores_per_unit)
        }
        if not lost:
            return look
        there = tuple(device for device in look.devices if device.id not in lost)
        return replace(look, devices=there, failed={**look.failed, **lost})

    def _publish(self) -> None:
        """Holds the ledger's lock."""
        devices = tuple(self._ledger.listed())
        if devices and not self._may_offer:
            self._may_offer = self._is_first_offer_due()
            if not self._may_offer:
                return
        if not self._resource and devices:
            seen = [each.device for each in devices]
            self._resource = self._part.usual_resource(seen, self._cut.partition_cores)
        policy = Policy(
            resource=self._resource,
            disabled=Disabled(self._settings.disabled_devices, self._node),
            cores_per_unit=self._cut.cores_per_unit,
            partition_cores=self._cut.partition_cores,
            shares=self._cut.shares,
            cdi=self._settings.cdi,
        )
        held = self._allocations.held(self._resource)
        offers = make_offers(devices, self._part, policy, self._settings.roots.sys, held)
        if offers.kept != self._kept:
            for each in sorted({*offers.kept} - {*self._kept}):
                log.warning("%s is allocated: its device stays offered as it is until it is free", each)
            self._kept = offers.kept
        if offers.withheld != self._said_withheld:
            self._said_withheld = offers.withheld
            for line in offers.withheld:
                log.warning("not offered: %s", line)
        if devices and self._fitted != self._settings.disabled_devices:
            self._fitted = self._settings.disabled_devices
            if offers.unfitting:
                log.warning("disabledDevices: nothing on this node fits %s", ", ".join(offers.unfitting))
        self._inventory.publish(offers)

    def _is_first_offer_due(self) -> bool:
        """Before the kubelet's first answer it is not known which devices are held, and under which ids: an
        offer could contain the cores of a card that is held whole. Wait for the answer, but not forever."""
        if not self._allocations.awaits_first_answer:
            self._first_offer_due = None
            return True
        now = time.monotonic()
        if self._first_offer_due is None:
            self._first_offer_due = now + self._first_answer_seconds
            log.warning(
                "it is not known which devices are allocated (%s): it offers nothing for up to %.0f s",
                self._allocations.unknown,
                self._first_answer_seconds,
            )
        if now < self._first_offer_due:
            return False
        self._first_offer_due = None
        log.warning(
            "it is still not known which devices are allocated (%s): they are offered as if no container "
            "held one",
            self._allocations.unknown,
        )
        return True

    def _keep_up(self) -> None:
        while not self._stopped.is_set():
            self._moved_at = time.monotonic()
            try:
                self._take_up_changes()
                # A node with nothing to offer is not told of a resource that it does not have.
                offered = bool(self._inventory.by_id)
                if self._looked.is_set() and (offered or self._tally.total("registrations")):
                    self._registration.tick(self._resource)
            except Exception:  # the loop outlives a fault of ours
                log.exception("the kubelet could not be kept up with in a way that was not foreseen")
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()

    def _take_up_changes(self) -> None:
        change = self._reloader.poll()
        if change is None:
            return
        if change.error is not None:
            change.say(log)
            self._tally.count("reloads", "rejected")
            return
        self._apply(change)

    def _apply(self, change: Change[PluginSettings]) -> None:
        settings = change.settings
        configure(settings.log_level, settings.log_format)
        if settings.cut != self._cut:
            self._allocations.refresh()
        with self._ledger_lock:
            self._settings = settings
            self._ledger.rule = settings.health_rule
            waiting, withdrawn = self._take_cut(settings)
            if self._looked.is_set():
                self._publish()
        if "interval" in change.changed:
            self._look_now.set()
        unchanged = {*withdrawn, *self._wanted_cut.keys_unlike(self._cut)}
        replace(
            change,
            changed=tuple(key for key in change.changed if key not in unchanged),
            needs_restart=(*change.needs_restart, *waiting),
            restart_withdrawn=(*change.restart_withdrawn, *withdrawn),
        ).say(log)
        self._tally.count("reloads", "applied")

    def _take_cut(self, settings: PluginSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Keys that wait for a restart since now, and those that do no longer. Whoever asks for a whole card
        must not be given a part of one: another cut that is another resource is not taken up."""
        before, waited = self._cut, self._wanted_cut.keys_unlike(self._cut)
        cut = settings.cut
        news = cut.keys_unlike(self._wanted_cut)
        self._wanted_cut = cut
        usual = self._settle_cut()
        waiting = tuple(key for key in cut.keys_unlike(self._cut) if key in news)
        if waiting and self._waits_for_kubelet:
            log.warning(
                "it is not known which devices are allocated (%s): %s waits until it is, or for a restart",
                self._allocations.unknown,
                ", ".join(waiting),
            )
        elif waiting:
            log.warning("with the new settings this would be %s, not %s", usual, self._resource)
        return waiting, tuple(key for key in waited if key not in cut.keys_unlike(before))

    def _settle_cut(self) -> str:
        """Take up what may be of the cut that the settings ask for. Returns the resource that it would be.
        Holds the ledger's lock."""
        cut = self._wanted_cut
        seen = [each.device for each in self._ledger.listed()]
        usual = self._settings.resource_name or self._part.usual_resource(seen, cut.partition_cores)
        possible = cut if self._resource in ("", usual) else replace(self._cut, shares=cut.shares)
        unknown = self._allocations.unknown is not None and bool(self._inventory.by_id)
        waited, self._waits_for_kubelet = self._waits_for_kubelet, unknown and possible != self._cut
        if not self._waits_for_kubelet:
            if waited and possible != self._cut:
                keys = ", ".join(possible.keys_unlike(self._cut))
                log.info("settings that no longer need a restart: %s", keys)
            self._cut = possible
        return usual

    def _edits(self, given: list[Given]) -> Edits:
        return self._part.edits(given, cdi=self._settings.cdi)

    def _stuck(self) -> str | None:
        still = time.monotonic() - self._moved_at
        return f"the loop has not moved for {still:.0f} s" if still > _STUCK_SECONDS else None

    def _not_ready(self) -> str | None:
        if not self._looked.is_set():
            return "the devices were not looked at yet"
        if self._first_offer_due is not None:
            return f"it is not known which devices are allocated: {self._allocations.unknown}"
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


def run(loaded: Loaded[PluginSettings], arguments: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT. Raises EndpointError and ServeError."""
    settings = loaded.settings
    configure(settings.log_level, settings.log_format)
    plugin = Plugin(loaded, arguments, environ)
    asked = EndSignals()
    plugin.start()
    log.info(
        "accelscope device-plugin %s looks for devices of %s",
        __version__,
        settings.vendor,
        extra=fields(port=plugin.server.address[1], folder=settings.plugin_dir),
    )
    name = asked.wait()
    log.info("%s: stopping; containers keep their devices", name)
    start_no_more_tools()
    plugin.stop()
    return 0
