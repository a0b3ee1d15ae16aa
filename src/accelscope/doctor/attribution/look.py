"""One look at whose the devices are, with the agent's own attribution."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from accelscope.agent.attribution_options import attribution_options
from accelscope.agent.runner import Result
from accelscope.attribution.attributor import Attributed, Attributor
from accelscope.attribution.options import AttributionOptions
from accelscope.doctor.subject import Subject
from accelscope.model import AttributionSourceState, Device, Process

# That the sources may take for their first answer: more than a server that does not answer needs to show it.
SECONDS = 12.0
_PAUSE_SECONDS = 0.05
UNDECIDED = "starting"  # the reason of a source that has not said anything yet


@dataclass(frozen=True, slots=True)
class Look:
    options: AttributionOptions
    devices: tuple[Device, ...]
    attributed: Attributed

    def state(self, source: str) -> AttributionSourceState | None:
        """None: nobody asks that source, with these settings and on this node."""
        return next((s for s in self.attributed.attribution if s.source == source), None)

    def by_pid(self) -> dict[int, list[Process]]:
        """A process that uses several devices stands there once for each."""
        found: dict[int, list[Process]] = {}
        for process in self.attributed.processes:
            found.setdefault(process.pid, []).append(process)
        return found

    def device(self, identity: str | None) -> str:
        """As people name it: the vendor and the index, unless two have the same."""
        names = {device.id: f"{device.vendor.value} {device.index}" for device in self.devices}
        name = names.get(identity or "")
        if name is None or list(names.values()).count(name) > 1:
            return identity or "an unknown device"
        return name


def look(subject: Subject, results: Sequence[Result], seconds: float = SECONDS) -> Look:
    """Waits until every source has answered or failed. Raises ConfigError."""
    options = attribution_options(subject.settings, subject.node, subject.environ)
    devices = tuple(device for result in results for device in result.devices)
    processes = tuple(process for result in results for process in result.processes)
    attributor = Attributor(options)
    attributor.start()
    try:
        deadline = time.monotonic() + seconds
        attributor.begin()
        # Again and again, because what one source tells may be the reason to ask another.
        while _undecided(attributor.attribute(devices, processes)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        # And once more: a source may have answered after it was looked at.
        return Look(options, devices, attributor.attribute(devices, processes))
    finally:
        attributor.stop()


def _undecided(attributed: Attributed) -> bool:
    return any(state.reason == UNDECIDED for state in attributed.attribution)
