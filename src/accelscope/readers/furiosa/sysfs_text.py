"""What single files of the driver in /sys say, as values of the model. Pure: text in, values out.

Each answers None for a text that is not of its form.
"""

import re

from accelscope.model import Clock, Throttle

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_CLOCK = re.compile(r"([\w ]{1,40}?)\s*\(\s*([^()]{1,10}?)\s*\)\s*:\s*([0-9]{1,15})", re.ASCII)
_CLOCK_UNITS = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_MASK = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE | re.ASCII)
_NAMED_BIT = re.compile(r"(0x[0-9a-f]{1,16}).{0,20}?\b(?:THROTTLE_)?([A-Z][A-Z0-9_]{2,40})", re.ASCII)
_COUNT = re.compile(r"([^:]{1,60}):\s*([0-9]{1,18})", re.ASCII)
_MOST_LINES = 1024

# Bits of throttle_reason, by the names of the vendor's library; throttle_reason_list has them with a prefix.
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "thermal_slowdown",
    0x4: "app_power_cap",
    0x8: "app_clock_cap",
    0x10: "hw_clock_cap",
    0x20: "hw_bus_limit",
    0x40: "hw_power_cap",
    0x80: "other_reason",
}

# A clock of a core in one of these ranges is in that unit: they do not overlap.
_CORE_CLOCK_RANGES = ((50.0, 1e4, 1e6), (5e4, 1e7, 1e3), (5e7, 1e10, 1.0))


def whole(text: str) -> int | None:
    bare = text.strip()
    return int(bare) if _WHOLE.fullmatch(bare) else None


def flag(text: str) -> bool | None:
    """`1` or `0`; anything else is not known to mean anything."""
    return {"1": True, "0": False}.get(text.strip())


def error_counts(text: str) -> dict[str, int] | None:
    """`atr_error`: `AXI Post Error: 0` as `axi_post_error`."""
    found: dict[str, int] = {}
    for line in _lines(text):
        match = _COUNT.fullmatch(line)
        if match is not None:
            found["_".join(match[1].casefold().split())] = int(match[2])
    return found or None


def clocks(text: str) -> tuple[Clock, ...] | None:
    """`ne_clk_freq_info`: `ne tensor (MHz): 2000`. Transfers per second (MT/s) are not a frequency."""
    found = []
    for line in _lines(text):
        match = _CLOCK.fullmatch(line)
        factor = _CLOCK_UNITS.get(match[2].casefold()) if match else None
        if match is not None and factor is not None:
            found.append(Clock("_".join(match[1].casefold().split()), hertz=int(match[3]) * factor))
    return tuple(found) or None


def core_clocks(text: str) -> tuple[float, ...] | None:
    """`npu_clocks`: one number per core, in order, as hertz. The file does not say its unit; the magnitude
    does. With a name and a unit before each number, as in `ne_clk_freq_info`, those hold."""
    named = clocks(text)
    if named is not None:
        return tuple(clock.hertz for clock in named if clock.hertz is not None)
    found = []
    for word in text.replace(",", " ").split()[:_MOST_LINES]:
        number = whole(word)
        hertz = None if number is None else _core_hertz(number)
        if hertz is None:
            return None  # the place of a number is its core: with one missing the others would shift
        found.append(hertz)
    return tuple(found) or None


def core_flags(text: str) -> tuple[bool, ...] | None:
    """`pe_occupancy`: one 0 or 1 per line and core."""
    found = []
    for word in text.replace(",", " ").split()[:_MOST_LINES]:
        held = flag(word)
        if held is None:
            return None
        found.append(held)
    return tuple(found) or None


def throttles(reasons: str, listed: str) -> tuple[Throttle, ...] | None:
    """`throttle_reason` is a set of bits; `throttle_reason_list` names those that this driver knows."""
    match = _MASK.fullmatch(reasons.strip())
    if match is None:
        return None
    active = int(match[1], 16)
    names = {int(bit, 16): name.casefold() for bit, name in _NAMED_BIT.findall(listed[:10_000])}
    names = {bit: name for bit, name in names.items() if bit and bit & (bit - 1) == 0}  # single bits
    return tuple(
        Throttle(name, active=bool(active & bit)) for bit, name in sorted((names or THROTTLE_BITS).items())
    )


def _core_hertz(number: int) -> float | None:
    if number == 0:
        return 0.0
    return next((number * unit for low, high, unit in _CORE_CLOCK_RANGES if low <= number <= high), None)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_MOST_LINES] if line.strip()]
