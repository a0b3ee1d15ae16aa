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
_HEXADECIMAL = re.compile(r"(\w{1,60}):\s*(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE | re.ASCII)
_MOST_LINES = 1024
_MAX_CORE_HERTZ = 1e11

# Bits of throttle_reason, by the names of the vendor's library of 2026.4; throttle_reason_list has them with
# a prefix. Until 2026.1 the bit 0x80 was the last one and meant other_reason: drivers with a list name it so.
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "thermal_slowdown",
    0x4: "app_power_cap",
    0x8: "app_clock_cap",
    0x10: "hw_clock_cap",
    0x20: "hw_bus_limit",
    0x40: "hw_power_cap",
    0x80: "gov_clock_cap",
    0x100: "other_reason",
}
UNKNOWN_THROTTLE = "unknown"  # as the vendor's library calls a bit that has no name


def whole(text: str) -> int | None:
    bare = text.strip()
    return int(bare) if _WHOLE.fullmatch(bare) else None


def flag(text: str) -> bool | None:
    """`1` or `0`; anything else is not known to mean anything."""
    return {"1": True, "0": False}.get(text.strip())


def is_alive_state(text: str) -> bool:
    """`device_state` of an RNGD: 0 is alive, and anything else is not."""
    return text.strip() == "0"


def hexadecimal_values(text: str) -> dict[str, int]:
    """`dram_usage: 0x130000000` by name; lines of another form are left out."""
    found = (_HEXADECIMAL.fullmatch(line) for line in _lines(text))
    return {match[1]: int(match[2], 16) for match in found if match is not None}


def core_memory(text: str) -> tuple[int, int] | None:
    """`alloc_status` of a core: bytes in all and in use, those that it shares with other cores included."""
    values = hexadecimal_values(text)
    try:
        total = values["dram_capacity"] + values["shared_capacity"]
        return total, values["dram_usage"] + values["shared_usage"]
    except KeyError:
        return None


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
    """`npu_clocks`: one number per core, in order, in hertz."""
    found = []
    for word in text.split()[:_MOST_LINES]:
        number = whole(word)
        if number is None or not 0 <= number <= _MAX_CORE_HERTZ:
            return None  # the place of a number is its core: with one missing the others would shift
        found.append(float(number))
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
    named = sorted((names or THROTTLE_BITS).items())
    found = [Throttle(name, active=bool(active & bit)) for bit, name in named]
    if active & ~sum(bit for bit, _ in named):
        found.append(Throttle(UNKNOWN_THROTTLE, active=True))
    return tuple(found)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_MOST_LINES] if line.strip()]
