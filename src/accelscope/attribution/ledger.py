"""Totals over time: energy of pods and of idle devices, and the idle time of pods.

When a device's energy counter increases, the difference is divided among the pods that used the device since
the last increase; the rest is idle energy. A counter may change less often than collections are made.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from accelscope.attribution.usage import DeviceUse, UsageKey
from accelscope.model import AbsenceReason, Device

# After a longer gap between readings, power is not extrapolated. A device whose energy counter is missing for
# longer is treated as one without a counter.
_LONGEST_GAP_SECONDS = 600.0


@dataclass(slots=True)
class _Account:
    energy_joules: float | None  # the device's counter when it was last read
    read_at: float | None
    # By the monotonic clock:
    entered_at: float  # of that reading
    counted_at: float  # when the device last had a counter
    seen_at: float  # the last collection that read it
    settled_at: float  # when its energy was last charged
    idle_joules: float = 0.0
    fresh: bool = True  # the previous collection read it
    carrier: str | None = None  # another device that reports the power of the whole board
    # Since its energy was last charged:
    shares: dict[UsageKey, float] = field(default_factory=dict)  # average fraction of use
    power_joules: float = 0.0  # power multiplied by time


@dataclass(frozen=True, slots=True)
class StoredIdleTime:
    """How long a container was idle when the agent restarted."""

    pod_uid: str | None
    seconds: float


class Ledger:
    def __init__(self, stored: Mapping[UsageKey, StoredIdleTime] | None = None) -> None:
        self._stored = dict(stored or {})  # not used yet
        self._began_at = inf  # the first collection
        self._accounts: dict[str, _Account] = {}
        self._energy: dict[UsageKey, float] = {}
        self._active_at: dict[UsageKey, float] = {}
        self._uids: dict[UsageKey, str] = {}  # of the pods: another pod may get the same name

    def enter(self, uses: Mapping[str, DeviceUse], pods: Collection[tuple[str, str]], now: float) -> None:
        """Add one collection. `pods` are the namespaces and names of this node's pods, `now` is monotonic."""
        self._expire_stored(now)
        shown = {key for use in uses.values() for key in use.keys}
        self._forget_replaced(uses)
        self._energy = {
            key: joules
            for key, joules in self._energy.items()
            if key in shown or (key.namespace, key.pod) in pods
        }
        allocated = {key for use in uses.values() for key in use.allocations}
        self._active_at = {key: at for key, at in self._active_at.items() if key in allocated}
        self._accounts = {device: self._accounts[device] for device in uses if device in self._accounts}
        for account in self._accounts.values():  # the share of a removed pod becomes idle energy
            account.shares = {key: share for key, share in account.shares.items() if key in self._energy}
        self._enter_energy(uses, now)
        for use in uses.values():
            for key in use.allocations:
                is_active = _is_active(use, key)
                if is_active or key not in self._active_at:
                    self._active_at[key] = now
                if key in self._stored:
                    self._use_stored(key, use.uids.get(key), is_active=bool(is_active))

    def _use_stored(self, key: UsageKey, uid: str | None, *, is_active: bool) -> None:
        """Continue a stored idle time, unless the container is active or the pod is another one."""
        stored = self._stored[key]
        if uid is None and stored.pod_uid is not None and not is_active:
            return  # the pod's uid is not known yet
        del self._stored[key]
        if stored.pod_uid == uid and not is_active:
            self._active_at[key] = min(self._active_at[key], self._began_at - stored.seconds)

    def _expire_stored(self, now: float) -> None:
        self._began_at = min(self._began_at, now)
        if now - self._began_at > _LONGEST_GAP_SECONDS:
            self._stored.clear()

    def _forget_replaced(self, uses: Mapping[str, DeviceUse]) -> None:
        """A new pod with the name of an earlier one (as in a StatefulSet) starts at zero."""
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
        """Since the container was last active or first seen; None if its activity is unknown."""
        active_at = self._active_at.get(key)
        if active_at is None or _is_active(use, key) is None:
            return None
        return max(0.0, now - active_at)

    def _enter_energy(self, uses: Mapping[str, DeviceUse], now: float) -> None:
        devices = [use.device for use in uses.values()]
        entered = [use.device for use in uses.values() if self._enter_use(use, devices, now)]
        for device in entered:
            self._charge(device, self._accounts[device.id], now)

    def _enter_use(self, use: DeviceUse, devices: Iterable[Device], now: float) -> bool:
        """Returns whether the device's energy can be charged now."""
        device = use.device
        shares = use_fractions(use)
        carrier = _carrier(device, devices)
        has_energy = _reports_energy(device) or carrier is not None
        if shares is not None and (device.id in self._accounts or has_energy):
            for key in use.keys:
                self._energy.setdefault(key, 0.0)
        account = self._accounts.get(device.id)
        if account is None:
            if has_energy:
                self._accounts[device.id] = _Account(
                    device.energy_joules,
                    device.read_at,
                    entered_at=now,
                    counted_at=now,
                    seen_at=now,
                    settled_at=now,
                    carrier=carrier,
                )
            return False
        if device.stale:
            account.fresh = False
            return False
        # A carrier that cannot be read now is kept: its counter will include this time.
        if carrier is not None or _reports_energy(device) or account.carrier not in self._accounts:
            account.carrier = carrier
        # The users during a time without readings are unknown.
        _average(account, (shares or {}) if account.fresh else {}, now)
        return True

    def _charge(self, device: Device, account: _Account, now: float) -> None:
        if account.carrier is not None:
            account.energy_joules = None
        else:
            account.power_joules += _by_power(device, account, now)
            added = _added(device, account, now)
            if added is not None:
                board = [account, *(other for other in self._accounts.values() if other.carrier == device.id)]
                for each in board:
                    self._settle(each, added / len(board), now)
            if device.energy_joules is not None:
                account.energy_joules, account.counted_at = device.energy_joules, now
        if device.read_at != account.read_at:
            account.read_at, account.entered_at = device.read_at, now
        account.seen_at, account.fresh = now, True

    def _settle(self, account: _Account, added: float, now: float) -> None:
        """Divide the energy among the pods; the rest is idle energy."""
        charged = 0.0
        for key, share in account.shares.items():
            self._energy[key] += added * share
            charged += added * share
        account.idle_joules += max(0.0, added - charged)
        account.shares, account.power_joules, account.settled_at = {}, 0.0, now


def _reports_energy(device: Device) -> bool:
    return not device.stale and (device.energy_joules is not None or device.power_watts is not None)


def _carrier(device: Device, devices: Iterable[Device]) -> str | None:
    """Of several dies on one board, one reports the power of all. For the others, this is its id."""
    is_shared = any(
        absence.reason is AbsenceReason.SHARED and absence.field in ("power_watts", "energy_joules")
        for absence in device.absent
    )
    if not is_shared or _reports_energy(device):
        return None
    carriers = [other.id for other in devices if _reports_energy(other) and _is_same_board(device, other)]
    return carriers[0] if len(carriers) == 1 else None


def _is_same_board(one: Device, other: Device) -> bool:
    if one.vendor is not other.vendor:
        return False
    if one.board_id is not None and other.board_id is not None:
        return one.board_id == other.board_id
    return one.serial is not None and one.serial == other.serial


def _average(account: _Account, shares: Mapping[UsageKey, float], now: float) -> None:
    """Update the average shares with those of the time since the previous collection."""
    seconds = now - account.settled_at
    latest = (now - account.seen_at) / seconds if seconds else 1.0
    for key in {**account.shares, **shares}:
        before = account.shares.get(key, 0.0)
        account.shares[key] = before + (shares.get(key, 0.0) - before) * latest


def _added(device: Device, account: _Account, now: float) -> float | None:
    """Joules since the last charge: from the device's counter, or without one from its power and the time
    between readings. None if there is nothing to charge now."""
    if account.energy_joules is None:
        return account.power_joules if device.read_at != account.read_at else None
    if device.energy_joules is None:
        # The counter is missing. It includes this time if it returns.
        if device.power_watts is None or now - account.counted_at <= _LONGEST_GAP_SECONDS:
            return None
        account.energy_joules = None
        return account.power_joules
    added = device.energy_joules - account.energy_joules
    if added < 0:
        return device.energy_joules  # the driver was reloaded and counts from 0
    return added if added else None  # the counter has not changed yet


def _by_power(device: Device, account: _Account, now: float) -> float:
    if device.power_watts is None or device.read_at == account.read_at:
        return 0.0
    seconds = now - account.entered_at
    return device.power_watts * seconds if account.fresh or seconds <= _LONGEST_GAP_SECONDS else 0.0


def use_fractions(use: DeviceUse) -> dict[UsageKey, float] | None:
    """The fraction of the device that each container uses, at most 1 in total. None if it is unknown, as for
    a GPU with MIG instances: then its pods get no energy value.

    If no process is listed, the container to which the device is allocated has all of the device's
    utilisation. Otherwise the processes' own utilisation counts. If the driver does not measure it, the
    device's utilisation is divided by the memory of the processes.
    """
    users = [*use.pods.values(), *use.others.values()]
    busy = None if use.device.utilization_ratio is None else min(1.0, use.device.utilization_ratio)
    if use.hidden_user is not None:
        return None if busy is None else {use.hidden_user: busy}
    if any(measured.utilization is not None for measured in users):
        total = sum(measured.utilization or 0.0 for measured in users)
        scale = 1.0 / max(1.0, total)
        return {key: scale * (measured.utilization or 0.0) for key, measured in use.pods.items()}
    if busy is None:
        return None
    if not users:
        return {}
    known = all(measured.memory_bytes is not None for measured in users)
    weights = {
        key: float(measured.memory_bytes or 0) if known else float(measured.processes)
        for key, measured in use.pods.items()
    }
    total = sum(
        float(measured.memory_bytes or 0) if known else float(measured.processes) for measured in users
    )
    return {key: busy * weight / total for key, weight in weights.items()} if total else {}


def _is_active(use: DeviceUse, key: UsageKey) -> bool | None:
    """Whether the container uses the devices allocated to it; None if that is unknown."""
    sums = use.measured(key)
    known = [active for each in sums if (active := each.is_active) is not None]
    if known:
        return any(known)
    busy = use.device.utilization_ratio
    if sums and use.measures_processes:
        return False  # the driver has samples of active processes, and none of this container
    if sums or use.hidden_user == key:
        return None if busy is None else busy > 0
    # No process of the container is listed: its owner may be unknown, or the driver lists no processes.
    may_be_hidden = use.has_unknown_users or not (use.pods or use.others)
    if may_be_hidden and busy != 0:
        return None
    return False
