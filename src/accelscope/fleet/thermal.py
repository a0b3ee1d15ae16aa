"""The temperature of devices given their load: how many degrees a device is hotter than its own past and the
other devices of its node explain.

The power of this and the last minute and the mean power of the node's devices explain the temperature of a
device; what remains after that, and after the median of the same of the other devices, is its excess.
"""

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history_rings import Slots
from accelscope.fleet.robust import Mask, Numbers, Series, huber_fit, medians_of_others, spreads

FIT_MINUTES = 180
GAP_MINUTES = 40  # the newest minutes, which are not fitted: a slow fault must not become the past
MIN_FIT_MINUTES = 60
REFIT_MINUTES = 10
MIN_OTHERS = 3

_WIDTH = 2.0  # degrees Celsius: residuals above it are outliers
_RIDGE = 1.0  # in squares of 100 W
_SCALE = 100.0  # watts
_MARGIN = 0.02  # of the highest power: outside the fitted range by more, a minute is not judged
_CUT = 0.03  # of the minutes at either end of the range
_SIMILAR = 0.1  # fraction of the highest power: within it, two devices have a similar load
_MIN_SIMILAR = 2
_TERMS = 4  # constant, power of this minute, of the last minute, mean power of the node's devices
_LENGTH = FIT_MINUTES + GAP_MINUTES + 1
_MIN_RATE_SECONDS = 10.0  # between two readings of a counter
_MAX_STORED = 60_000.0  # the limit of half precision
_NEVER = -(1 << 40)


class MeanPower:
    """Mean power since the last minute, from the device's energy counter: a single sample per minute is
    misleading where the load comes in bursts."""

    def __init__(self) -> None:
        self._joules = np.zeros(0)
        self._taken_at = np.zeros(0)

    def grow_to(self, slots: int) -> None:
        missing = slots - len(self._joules)
        if missing > 0:
            self._joules = np.concatenate([self._joules, np.full(missing, np.nan)])
            self._taken_at = np.concatenate([self._taken_at, np.full(missing, np.nan)])

    def reset(self, slots: Slots) -> None:
        self._joules[slots] = np.nan

    def take(
        self,
        slots: Slots,
        joules: npt.NDArray[np.float64],
        taken_at: npt.NDArray[np.float64],
        sampled: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """`sampled` is the result where there is no energy counter."""
        seconds = taken_at - self._taken_at[slots]
        increase = joules - self._joules[slots]
        valid = (seconds >= _MIN_RATE_SECONDS) & (increase > 0)  # a decrease is a reset of the counter
        self._joules[slots] = joules
        self._taken_at[slots] = taken_at
        return np.where(valid, increase / np.where(valid, seconds, 1), sampled)


class ThermalModel:
    """The fitted temperature of devices by slot. `lines` are the slots of each node's devices, padded with
    -1."""

    def __init__(self) -> None:
        self._minute = 0
        # Slots x minutes; half precision is exact to 0.1 °C and 0.5 W. 0 is absent, because pages of zeros
        # that are never written take no memory.
        self._power = np.zeros((0, _LENGTH), np.float16)
        self._temperature = np.zeros((0, _LENGTH), np.float16)
        self._fitted_at = np.zeros(0, np.int64)  # minute
        self._coefficients = np.zeros((0, _TERMS))
        # The range of power that was fitted, of the device and of its node, in watts; NaN: not fitted.
        self._low, self._high = np.zeros(0), np.zeros(0)
        self._node_low, self._node_high = np.zeros(0), np.zeros(0)
        self._spread = np.zeros(0)  # of the residuals of the fit

    def grow_to(self, slots: int) -> None:
        before = len(self._fitted_at)
        if slots <= before:
            return
        for name in ("_power", "_temperature", "_coefficients"):
            values = getattr(self, name)
            more = np.zeros((slots, *values.shape[1:]), values.dtype)
            more[:before] = values
            setattr(self, name, more)
        added = slots - before
        self._fitted_at = np.concatenate([self._fitted_at, np.full(added, _NEVER)])
        for name in ("_low", "_high", "_node_low", "_node_high", "_spread"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(added, np.nan)]))

    def reset(self, slots: Slots) -> None:
        self._power[slots] = 0
        self._temperature[slots] = 0
        self.forget_fit(slots)

    def forget_fit(self, slots: Slots) -> None:
        self._fitted_at[slots] = _NEVER
        self._low[slots] = np.nan

    def begin(self, minute: int) -> None:
        """Skipped minutes are gaps."""
        if not self._minute:
            self._minute = minute - 1
        passed = np.arange(max(self._minute + 1, minute - _LENGTH + 1), minute + 1) % _LENGTH
        self._power[:, passed] = 0
        self._temperature[:, passed] = 0
        self._minute = minute

    def take(self, slots: Slots, power: Numbers, temperature: Numbers) -> None:
        place = self._minute % _LENGTH
        self._power[slots, place] = _stored(power)
        self._temperature[slots, place] = _stored(temperature)

    def fill(self, here: slice, power: Series, temperature: Series) -> None:
        """Fills gaps in the minutes before the current one, oldest first."""
        places = np.arange(self._minute - power.shape[1], self._minute) % _LENGTH
        for stored, values in ((self._power, power), (self._temperature, temperature)):
            before = stored[here, places]
            stored[here, places] = np.where(before == 0, _stored(values), before)

    def due(self, lines: Slots, frozen: Mask) -> Mask:
        """Lines with a device that is to be fitted in this minute: each node once in REFIT_MINUTES, spread
        evenly. The fit of a frozen device stays."""
        present = lines >= 0
        age = self._minute - self._fitted_at[lines]
        turn = lines[:, 0] % REFIT_MINUTES == self._minute % REFIT_MINUTES
        waiting = present & ~frozen[lines] & ((age >= 2 * REFIT_MINUTES) | ((age > 0) & turn[:, None]))
        return np.asarray(waiting.any(axis=1))

    def fit(self, lines: Slots, frozen: Mask) -> None:
        """Fits the devices of these nodes on up to FIT_MINUTES that end GAP_MINUTES ago."""
        end = self._minute - GAP_MINUTES + 1
        places = np.arange(end - FIT_MINUTES - 1, end) % _LENGTH
        slots = np.maximum(lines, 0)
        power = _read(self._power[slots[:, :, None], places])
        power[lines < 0] = np.nan
        of_node = np.broadcast_to(_present_mean(power)[:, None, :], power.shape)
        chosen = (lines >= 0) & ~frozen[slots]
        own = slots[chosen]
        now, before, node = power[chosen][:, 1:], power[chosen][:, :-1], of_node[chosen][:, 1:]
        temperature = _read(self._temperature[own[:, None], places[1:]])
        known = ~(np.isnan(now) | np.isnan(before) | np.isnan(temperature))
        enough = np.count_nonzero(known, axis=1) >= MIN_FIT_MINUTES
        self._fitted_at[own] = self._minute
        self._low[own[~enough]] = np.nan
        own, known = own[enough], known[enough]
        now, before, node = now[enough], before[enough], node[enough]
        # Around the means of a device, the terms are as independent of each other as they can be.
        middle, middle_node = _mean_of(now, known), _mean_of(node, known)
        features = _features(now, before, node, middle[:, None], middle_node[:, None])
        values = np.where(known, temperature[enough], np.nan)
        fitted = huber_fit(features, values, _WIDTH, _RIDGE)
        self._spread[own] = spreads(values - (features @ fitted[:, :, None])[:, :, 0])
        fitted[:, 0] -= (fitted[:, 1] + fitted[:, 2]) * middle / _SCALE + fitted[:, 3] * middle_node / _SCALE
        self._coefficients[own] = fitted
        self._low[own], self._high[own] = _range_of(now, known)
        self._node_low[own], self._node_high[own] = _range_of(node, known)

    def excess(self, lines: Slots) -> Series:
        """Degrees above the expected temperature, by line and device; NaN where it cannot be judged: without
        a fit, outside the fitted power, or with fewer than MIN_OTHERS devices to compare with.

        The others are all devices of the node, or those with a similar load where that is less excess."""
        slots = np.maximum(lines, 0)
        place, last = self._minute % _LENGTH, (self._minute - 1) % _LENGTH
        now, before = (
            np.where(lines >= 0, _read(self._power[slots, at]), np.nan).astype(np.float64)
            for at in (place, last)
        )
        temperature = _read(self._temperature[slots, place]).astype(np.float64)
        node = np.broadcast_to(_present_mean(now[:, :, None]), now.shape)
        low, high = self._low[slots], self._high[slots]
        inside = (now >= low) & (now <= high) & (before >= low) & (before <= high)
        inside &= (node >= self._node_low[slots]) & (node <= self._node_high[slots])
        expected = (_features(now, before, node, 0.0, 0.0) * self._coefficients[slots]).sum(axis=2)
        residual = np.where(inside, temperature - expected, np.nan)
        others, count = medians_of_others(residual)
        similar = np.abs(now[:, :, None] - now[:, None, :]) <= _SIMILAR * high[:, :, None]
        beside, count_beside = medians_of_others(residual, similar)
        others = np.where(count_beside >= _MIN_SIMILAR, np.maximum(others, beside), others)
        return np.where(count >= MIN_OTHERS, residual - others, np.nan)

    @property
    def spread(self) -> Numbers:
        """By slot, the standard deviation of the residuals of the fit, in degrees Celsius."""
        return self._spread


def _stored(values: Series) -> Series:
    return np.minimum(np.maximum(np.nan_to_num(values), 0), _MAX_STORED)


def _read(stored: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    values = stored.astype(np.float32)
    values[values == 0] = np.nan
    return values


def _features(
    now: Series, before: Series, node: Series, middle: Numbers | float, middle_node: Numbers | float
) -> npt.NDArray[np.float64]:
    """Series x minutes x terms."""
    terms = np.empty((*now.shape, _TERMS))
    terms[..., 0] = 1
    terms[..., 1] = (now - middle) / _SCALE
    terms[..., 2] = (before - middle) / _SCALE
    terms[..., 3] = (node - middle_node) / _SCALE
    return terms


def _present_mean(power: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The mean over the devices of each node: lines x devices x minutes."""
    known = ~np.isnan(power)
    found: npt.NDArray[np.floating] = np.where(known, power, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return found


def _mean_of(values: Series, known: Mask) -> Numbers:
    found: Numbers = np.where(known, values, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return found


def _range_of(values: Series, known: Mask) -> tuple[Numbers, Numbers]:
    """Of each series, without the lowest and highest values: a few minutes are too few to fit."""
    in_order = np.sort(np.where(known, values, np.inf), axis=1)
    here, last = np.arange(len(values)), known.sum(axis=1) - 1
    cut = (_CUT * last).astype(np.intp)
    margin = _MARGIN * in_order[here, last]
    return in_order[here, cut] - margin, in_order[here, last - cut] + margin
