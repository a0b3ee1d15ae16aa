"""The names that rocm-smi gives to its values, the same in its JSON and its CSV.

Spelling changed over the versions (`Card series`, `Card Series`); the tool of Hygon's DCUs, a fork, has
names of its own. Everything is a word, and the unit stands in the name.
"""

import re
from collections.abc import Mapping
from itertools import count

from accelscope.model import Process, ProcessType, pci_address
from accelscope.vendors.amd import quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import DUAL_DIE_CODES
from accelscope.vendors.amd.kfd import slot_of
from accelscope.vendors.common.values import program_name

# Key in small letters, place in the model, how to read it. Of several keys for one place the first with a
# value is taken. `gpu memory use (%)` is how busy the memory controller is, not how full the memory is.
_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("unique id", "uuid", quantities.unique_id),
    ("serial number", "serial", quantities.identifier),
    ("pci bus", "pci_address", pci_address),
    ("card series", "model", quantities.name),
    ("device name", "model", quantities.name),
    ("card model", "model", quantities.name),
    ("gfx version", "architecture", quantities.architecture),
    ("vbios version", "firmware_version", quantities.words),
    ("gpu use (%)", "utilization_ratio", quantities.ratio),
    ("dcu use (%)", "utilization_ratio", quantities.ratio),
    ("hcu use (%)", "utilization_ratio", quantities.ratio),
    ("gpu memory read/write activity (%)", "memory_utilization_ratio", quantities.ratio),
    ("gpu memory use (%)", "memory_utilization_ratio", quantities.ratio),
    ("vram total memory (b)", "memory_total_bytes", quantities.memory),
    ("vram total memory (mib)", "memory_total_bytes", quantities.mebibytes),
    ("vram total used memory (b)", "memory_used_bytes", quantities.memory),
    ("vram total used memory (mib)", "memory_used_bytes", quantities.mebibytes),
    ("average graphics package power (w)", "power_watts", quantities.watts),
    ("current socket graphics package power (w)", "power_watts", quantities.watts),
    ("max graphics package power (w)", "power_limit_watts", quantities.watts),
    ("accumulated energy (uj)", "energy_joules", quantities.microjoules),
    ("fan speed (%)", "fans.0.ratio", quantities.ratio),
    ("fan level", "fans.0.ratio", quantities.ratio),
    ("fan rpm", "fans.0.rpm", quantities.rpm),
    ("current_fan_speed (rpm)", "fans.0.rpm", quantities.rpm),
    ("voltage (mv)", "rails.gfx", quantities.volts),
    ("pcie replay count", "pcie.replays_total", quantities.count),
    ("(topology) numa node", "numa_node", quantities.numa_node),
    ("(topology) numa affinity", "numa_node", quantities.numa_node),
    ("compute partition", "compute_partition", quantities.partition),
    ("memory partition", "memory_partition", quantities.partition),
)
_SENSOR = re.compile(r"temperature \(sensor ([a-z0-9 _]{1,32})\) \(c\)")
_OTHER_POWER = re.compile(r"(?!max )[a-z /]{1,60} power \(w\)")
_CLOCKS = {
    "sclk": "graphics",
    "mclk": "memory",
    "fclk": "fabric",
    "socclk": "soc",
    "vclk": "video",
    "dclk": "data",
    "dcefclk": "display",
}
_CLOCK_SPEED = re.compile(r"(\w{1,8}?)[0-9]? clock speed")
_VALID_RANGE = re.compile(r"valid (\w{1,8}) range")
_PCIE_LEVEL = re.compile(r"[0-9]{1,3} \(\s*([0-9.]{1,8}\s*GT/s)\s*,?\s*(x[0-9]{1,3})\s*\)", re.IGNORECASE)
_PID = re.compile(r"PID([0-9]{1,10})", re.ASCII)

OF_THE_MODULE = ("power_watts", "power_limit_watts", "energy_joules")

Values = Mapping[str, str]


def normal(key: str) -> str:
    return " ".join(key.split()).rstrip(":").strip().casefold()


def draft_of(values: Values, index: int, driver_version: str | None) -> AmdDraft:
    """`values` by their normal keys."""
    draft = AmdDraft()
    draft.put("index", index)
    for key, place, read in _FIELDS:
        if key not in values:
            continue
        if place == "numa_node" and quantities.is_no_numa_node(values[key]):
            continue
        draft.take(place, values[key], read, key)
    for key, value in values.items():
        _take_patterned(draft, key, value)
    if _is_on_a_secondary_die(values):
        draft.share(*OF_THE_MODULE)
    if driver_version is not None:
        draft.put("driver_version", driver_version)
    return draft


def _take_patterned(draft: AmdDraft, key: str, value: str) -> None:
    if match := _SENSOR.fullmatch(key):
        name = {"mem": "memory"}.get(match[1], match[1].replace(" ", ""))
        draft.take(f"sensors.{name}", value, quantities.celsius, key)
    elif match := _CLOCK_SPEED.fullmatch(key):
        if match[1] in _CLOCKS:
            draft.take(f"clocks.{_CLOCKS[match[1]]}", value, quantities.hertz, key)
    elif match := _VALID_RANGE.fullmatch(key):
        top = quantities.highest_hertz(value.rpartition(" - ")[2])
        if match[1] in _CLOCKS and top is not None:
            draft.put(f"clocks.{_CLOCKS[match[1]]}.max", top)
    elif key == "pcie clock level":
        if level := _PCIE_LEVEL.fullmatch(value.strip()[:100]):
            draft.take("pcie.generation", level[1], quantities.generation, key)
            draft.take("pcie.width", level[2], quantities.lanes, key)
    elif _OTHER_POWER.fullmatch(key) and "power_watts" not in draft.values:
        draft.take("power_watts", value, quantities.watts, key)


def is_dual_die(values: Values) -> bool:
    codes = (values.get(key, "") for key in ("device id", "gpu id"))
    named = "mi250" in (values.get("card series", "") + values.get("device name", "")).casefold()
    return named or any(_hexadecimal(code) in DUAL_DIE_CODES for code in codes)


def _is_on_a_secondary_die(values: Values) -> bool:
    """The tool's own word for a die whose module's power stands at the other die. Some versions say it of
    chips that have one die: there it means that nothing is measured."""
    said = any(quantities.SECONDARY_DIE in value.casefold()[:100] for value in values.values())
    return said and is_dual_die(values)


def share_modules(drafts: list[tuple[AmdDraft, bool]]) -> None:
    """What several cards show of one thing is counted at the first of them. Two dies of a module both show
    its power; they are matched by the module's serial number, else in their order. Partitions of a GPU, which
    have its address, show its power and its memory. The flag is True for a chip with two dies."""
    first: dict[object, AmdDraft] = {}
    unnumbered = count()
    for draft, dual_die in drafts:
        serial, address = draft.values.get("serial"), draft.values.get("pci_address")
        if dual_die:
            module = ("pair", next(unnumbered) // 2) if serial is None else serial
            # A die that leaves it to the other one may show 0.
            shows_power = bool(draft.values.get("power_watts"))
            if not shows_power or first.setdefault(module, draft) is not draft:
                draft.share(*OF_THE_MODULE)
        elif address is not None:
            whole = first.setdefault(slot_of(address), draft)
            if whole is not draft:
                draft.share(*OF_THE_MODULE)
                if draft.values.get("memory_total_bytes") == whole.values.get("memory_total_bytes"):
                    draft.share("memory_total_bytes", "memory_used_bytes")


def processes_of(system: Mapping[str, str]) -> tuple[list[Process], list[str]]:
    """`"PID710898": "name, GPUs, VRAM bytes, SDMA µs, CU occupancy %"`, and the lines that are not so. A
    name may hold commas. Memory is the sum over the GPUs of the process. The occupancy is a share of the
    compute units of all GPUs of the node, so it is not the utilization of any of them."""
    found, strange = [], []
    for key, value in system.items():
        match = _PID.fullmatch(key.strip())
        if match is None:
            continue
        parts = [part.strip() for part in value[:4096].rsplit(",", 4)]
        pid = int(match[1])
        if len(parts) != 5 or not pid:
            strange.append(f"{key}: {value[:200]}")
            continue
        name, _, memory, _, _ = parts
        found.append(
            Process(
                pid=pid,
                name=program_name(name, quantities.absence),
                type=ProcessType.COMPUTE,
                memory_bytes=quantities.memory(memory),
            )
        )
    return found, strange


def _hexadecimal(text: str) -> int | None:
    match = re.fullmatch(r"\s*0x([0-9a-f]{1,8})\s*", text, re.IGNORECASE)
    return int(match[1], 16) if match else None
