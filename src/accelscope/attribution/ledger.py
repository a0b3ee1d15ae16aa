"""What adds up over time: energy of pods and of idle devices, and since when a pod has done nothing.

Whenever a device tells what it used, that is added to the pods' energy and to its idle energy, by who used it
since it last told. A counter may move more seldom than collections are made.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from accelscope.attribution.usage import DeviceUse, UsageKey
from accelscope.model import AbsenceReason, Device

# Without a reading of power: beyond it nobody knows what happened. Without its counter, a device is believed
# to have lost it.
_LONGEST_GAP_SECONDS = 600.0


@dataclass(slots=True)
class _Account:
    energy_joules: float | None  # the device's counter when it was last read
    read_at: float | None
    # By the clock that never jumps:
    entered_at: float  # that reading
    counted_at: float  # when there was a counter
    seen_at: float  # the last collection that could read it
    settled_at: float  # when its energy was last charged
    idle_joules: float = 0.0
    fresh: bool = True  # it was read in the collection before
    carrier: str | None = None  # the device at which the power of its board is counted, if that is another
    # Since its energy was last charged:
    shares: dict[UsageKey, float] = field(default_factory=dict)  # of its use, on average over that time
    power_joules: float = 0.0  # what its power comes to


@dataclass(frozen=True, slots=True)
class KeptIdle:
    """How long a container had been idle when the agent started, from before its restart."""

    pod_uid: str | None
    seconds: float


class Ledger:
    def __init__(self, kept: Mapping[UsageKey, KeptIdle] | None = None) -> None:
        self._kept = dict(kept or {})  # not yet seen again
        self._began_at = inf  # the first collection
        self._accounts: dict[str, _Account] = {}
        self._energy: dict[UsageKey, float] = {}
        self._active_at: dict[UsageKey, float] = {}
        self._uids: dict[UsageKey, str] = {}  # whose these figures are: a name may go to another pod

    def enter(self, uses: Mapping[str, DeviceUse], pods: Collection[tuple[str, str]], now: float) -> None:
        """Take one collection into account. `pods` (namespace, name) exist on this node, `now` is of a clock
        that never jumps."""
        self._forget_kept(now)
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
        for account in self._accounts.values():  # what is due from a pod that is gone becomes idle energy
            account.shares = {key: share for key, share in account.shares.items() if key in self._energy}
        self._enter_energy(uses, now)
        for use in uses.values():
            for key in use.holders:
                is_active = _is_active(use, key)
                if is_active or key not in self._active_at:
                    self._active_at[key] = now
                if key in self._kept:
                    self._take_up_kept(key, use.uids.get(key), is_active=bool(is_active))

    def _take_up_kept(self, key: UsageKey, uid: str | None, *, is_active: bool) -> None:
        """Go on counting where the agent before left off, unless the pod worked since or is another one."""
        kept = self._kept[key]
        if uid is None and kept.pod_uid is not None and not is_active:
            return  # the source of pods has not told yet which pod it is
        del self._kept[key]
        if kept.pod_uid == uid and not is_active:
            self._active_at[key] = min(self._active_at[key], self._began_at - kept.seconds)

    def _forget_kept(self, now: float) -> None:
        self._began_at = min(self._began_at, now)
        if now - self._began_at > _LONGEST_GAP_SECONDS:
            self._kept.clear()

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

    def _enter_energy(self, uses: Mapping[str, DeviceUse], now: float) -> None:
        devices = [use.device for use in uses.values()]
        entered = [use.device for use in uses.values() if self._enter_use(use, devices, now)]
        for device in entered:
            self._charge(device, self._accounts[device.id], now)

    def _enter_use(self, use: DeviceUse, devices: Iterable[Device], now: float) -> bool:
        """Whether there is something to charge."""
        device = use.device
        shares = shares_of_use(use)
        carrier = _carrier(device, devices)
        tells = _tells_of_energy(device) or carrier is not None
        if shares is not None and (device.id in self._accounts or tells):
            for key in use.keys:
                self._energy.setdefault(key, 0.0)
        account = self._accounts.get(device.id)
        if account is None:
            if tells:
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
        # One that cannot be read just now is still the one, and tells of this time when it is back.
        if carrier is not None or _tells_of_energy(device) or account.carrier not in self._accounts:
            account.carrier = carrier
        # Who used it while it could not be read is not known.
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
        """Charge what the device used since this was last done."""
        charged = 0.0
        for key, share in account.shares.items():
            self._energy[key] += added * share
            charged += added * share
        account.idle_joules += max(0.0, added - charged)
        account.shares, account.power_joules, account.settled_at = {}, 0.0, now


def _tells_of_energy(device: Device) -> bool:
    return not device.stale and (device.energy_joules is not None or device.power_watts is not None)


def _carrier(device: Device, devices: Iterable[Device]) -> str | None:
    """Of dies that share a module or a board, one shows the power of all. Its id, for the others."""
    is_shared = any(
        absence.reason is AbsenceReason.SHARED and absence.field in ("power_watts", "energy_joules")
        for absence in device.absent
    )
    if not is_shared or _tells_of_energy(device):
        return None
    told = [other.id for other in devices if _tells_of_energy(other) and _share_a_board(device, other)]
    return told[0] if len(told) == 1 else None


def _share_a_board(one: Device, other: Device) -> bool:
    if one.vendor is not other.vendor:
        return False
    if one.board_id is not None and other.board_id is not None:
        return one.board_id == other.board_id
    return one.serial is not None and one.serial == other.serial


def _average(account: _Account, shares: Mapping[UsageKey, float], now: float) -> None:
    """Let the shares that are kept be the average with these, which are of the time since the collection
    before."""
    seconds = now - account.settled_at
    latest = (now - account.seen_at) / seconds if seconds else 1.0
    for key in {**account.shares, **shares}:
        before = account.shares.get(key, 0.0)
        account.shares[key] = before + (shares.get(key, 0.0) - before) * latest


def _added(device: Device, account: _Account, now: float) -> float | None:
    """Joules since it last told: by the device's own counter; where it has none, or lost it, its power over
    the time between the readings. None: it does not tell now."""
    if account.energy_joules is None:
        return account.power_joules if device.read_at != account.read_at else None
    if device.energy_joules is None:
        # It is silent just now, and tells of this time when it is back, if it ever is.
        if device.power_watts is None or now - account.counted_at <= _LONGEST_GAP_SECONDS:
            return None
        account.energy_joules = None
        return account.power_joules
    added = device.energy_joules - account.energy_joules
    if added < 0:
        return device.energy_joules  # the driver was loaded anew and counts from 0
    return added if added else None  # it has not moved yet


def _by_power(device: Device, account: _Account, now: float) -> float:
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
    seen = use.measured(key)
    told = [did for measured in seen if (did := measured.did_something) is not None]
    if told:
        return any(told)
    busy = use.device.utilization_ratio
    if seen and use.tells_of_processes:
        return False  # the driver has samples of those that ran, and of this one it has none
    if seen or use.hidden_user == key:
        return None if busy is None else busy > 0
    # No process of it is seen: it may be one that nobody could name, or of a driver that shows none.
    may_be_hidden = use.has_unknown_users or not (use.pods or use.others)
    if may_be_hidden and busy != 0:
        return None
    return False
