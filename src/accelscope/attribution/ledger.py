"""What adds up over time: energy of pods and of idle devices, and since when a pod has done nothing.

In every collection, what is added to the pods' energy and to the idle energy of a device is what the device
itself used since the collection before.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from accelscope.attribution.usage import DeviceUse, UsageKey
from accelscope.model import Device

_LONGEST_GAP_SECONDS = 600.0  # without a reading of power: beyond it nobody knows what happened


@dataclass(slots=True)
class _Account:
    energy_joules: float | None  # the device's counter when it was last read
    read_at: float | None
    entered_at: float  # that reading, by the clock that never jumps
    idle_joules: float = 0.0
    fresh: bool = True  # it was read in the collection before


class Ledger:
    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._energy: dict[UsageKey, float] = {}
        self._active_at: dict[UsageKey, float] = {}
        self._uids: dict[UsageKey, str] = {}  # whose these figures are: a name may go to another pod

    def enter(self, uses: Mapping[str, DeviceUse], pods: Collection[tuple[str, str]], now: float) -> None:
        """Take one collection into account. `pods` (namespace, name) exist on this node, `now` is of a clock
        that never jumps."""
        shown = {key for use in uses.values() for key in use.keys}
        self._forget_replaced(uses)
        self._energy = {
            key: joules
            for key, joules in self._energy.items()
            if key in shown or (key.namespace, key.pod) in pods
        }
        held = {key for use in uses.values() for key in use.holders}
        self._active_at = {key: at for key, at in self._active_at.items() if key in held}
        self._accounts = {device: self._accounts[device] for device in uses if device in self._accounts}
        for use in uses.values():
            self._enter_energy(use, now)
            for key in use.holders:
                if _is_active(use, key) or key not in self._active_at:
                    self._active_at[key] = now

    def _forget_replaced(self, uses: Mapping[str, DeviceUse]) -> None:
        """A pod that took the name of another (of a StatefulSet, say) begins anew."""
        for use in uses.values():
            for key, uid in use.uids.items():
                if self._uids.get(key, uid) != uid:
                    self._energy.pop(key, None)
                    self._active_at.pop(key, None)
                self._uids[key] = uid
        known = (
            self._energy.keys() | self._active_at.keys() | {key for use in uses.values() for key in use.uids}
        )
        self._uids = {key: uid for key, uid in self._uids.items() if key in known}

    def energy_joules(self, key: UsageKey) -> float | None:
        return self._energy.get(key)

    def idle_energy_joules(self, device: str) -> float | None:
        account = self._accounts.get(device)
        return None if account is None else account.idle_joules

    def idle_seconds(self, use: DeviceUse, key: UsageKey, now: float) -> float | None:
        """Since it was last seen at work, or since it was first seen. None: nobody can tell."""
        active_at = self._active_at.get(key)
        if active_at is None or _is_active(use, key) is None:
            return None
        return max(0.0, now - active_at)

    def _enter_energy(self, use: DeviceUse, now: float) -> None:
        device = use.device
        shares = shares_of_use(use)
        if shares is not None and (device.id in self._accounts or _tells_of_energy(device)):
            for key in use.keys:
                self._energy.setdefault(key, 0.0)
        account = self._accounts.get(device.id)
        if account is None:
            if _tells_of_energy(device):
                self._accounts[device.id] = _Account(device.energy_joules, device.read_at, now)
            return
        if device.stale:
            account.fresh = False
            return
        added = _added(device, account, now)
        charged = 0.0
        if account.fresh:  # who used it while it could not be read is not known
            for key, share in (shares or {}).items():
                self._energy[key] += added * share
                charged += added * share
        account.idle_joules += max(0.0, added - charged)
        if device.energy_joules is not None:
            account.energy_joules = device.energy_joules
        if device.read_at != account.read_at:
            account.read_at, account.entered_at = device.read_at, now
        account.fresh = True


def _tells_of_energy(device: Device) -> bool:
    return device.energy_joules is not None or device.power_watts is not None


def _added(device: Device, account: _Account, now: float) -> float:
    """Joules since the reading before: by the device's own counter; where it has none, its power over the
    time between the readings."""
    if device.energy_joules is not None:
        if account.energy_joules is None:
            return 0.0
        added = device.energy_joules - account.energy_joules
        return added if added >= 0 else device.energy_joules  # the driver was loaded anew and counts from 0
    if account.energy_joules is not None:
        return 0.0  # its counter is silent just now, and tells of this time when it is back
    if device.power_watts is None or device.read_at == account.read_at:
        return 0.0
    seconds = now - account.entered_at
    return device.power_watts * seconds if account.fresh or seconds <= _LONGEST_GAP_SECONDS else 0.0


def shares_of_use(use: DeviceUse) -> dict[UsageKey, float] | None:
    """By how much each container uses the device, 0-1 and together at most 1; None: nobody can tell, as of a
    GPU that is cut into MIG instances.

    Where no process shows who is at work, all of the device's use is that of the one who holds it. Else by
    the processes' own utilisation where the driver measures it; else the device's, split by the memory that
    its processes hold.
    """
    everybody = [*use.pods.values(), *use.others.values()]
    busy = None if use.device.utilization_ratio is None else min(1.0, use.device.utilization_ratio)
    if use.hidden_user is not None:
        return None if busy is None else {use.hidden_user: busy}
    if any(measured.utilization is not None for measured in everybody):
        total = sum(measured.utilization or 0.0 for measured in everybody)
        scale = 1.0 / max(1.0, total)
        return {key: scale * (measured.utilization or 0.0) for key, measured in use.pods.items()}
    if not everybody:
        return {}
    if busy is None:
        return None
    known = all(measured.memory_bytes is not None for measured in everybody)
    weights = {
        key: float(measured.memory_bytes or 0) if known else float(measured.processes)
        for key, measured in use.pods.items()
    }
    total = sum(
        float(measured.memory_bytes or 0) if known else float(measured.processes) for measured in everybody
    )
    return {key: busy * weight / total for key, weight in weights.items()} if total else {}


def _is_active(use: DeviceUse, key: UsageKey) -> bool | None:
    """Whether the container does anything with what it holds; None: nobody can tell."""
    measured = use.measured(key)
    if measured is not None and (did := measured.did_something) is not None:
        return did
    busy = use.device.utilization_ratio
    if measured is not None and use.tells_of_processes:
        return False  # the driver has samples of those that ran, and of this one it has none
    if measured is not None or use.hidden_user == key:
        return None if busy is None else busy > 0
    # No process of it is seen: it may be one that nobody could name, or of a driver that shows none.
    may_be_hidden = use.has_unknown_users or not (use.pods or use.others)
    if may_be_hidden and busy != 0:
        return None
    return False
