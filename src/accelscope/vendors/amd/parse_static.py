"""`amd-smi static --json` (and its text form): who every GPU is, and what bounds it."""

import re

from accelscope.model import AbsenceReason, pci_address
from accelscope.parsing.parsed import Parsed
from accelscope.vendors.amd import quantities, trees
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.parse_metric import CLOCKS
from accelscope.vendors.amd.trees import Tree

STATIC = "amd-smi static"

# The firmware is the VBIOS' part number, as in the driver's files and in rocm-smi; the tool calls the VBIOS
# IFWI from ROCm 7.1 on.
_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("asic.market_name", "model", quantities.name),
    ("board.product_name", "model", quantities.name),
    ("board.model_number", "part_number", quantities.identifier),
    ("board.product_number", "part_number", quantities.identifier),
    ("asic.device_id", "pci_device_id", quantities.pci_device_id),
    ("asic.asic_serial", "uuid", quantities.unique_id),
    ("asic.target_graphics_version", "architecture", quantities.architecture),
    ("board.product_serial", "serial", quantities.identifier),
    ("board.product_serial_number", "serial", quantities.identifier),
    ("bus.bdf", "pci_address", pci_address),
    ("bus.max_pcie_width", "pcie.max_width", quantities.lanes),
    ("bus.max_pcie_lanes", "pcie.max_width", quantities.lanes),
    ("bus.max_pcie_speed", "pcie.max_generation", quantities.generation),
    ("bus.pcie_interface_version", "pcie.max_generation", quantities.named_generation),
    ("vbios.part_number", "firmware_version", quantities.words),
    ("vbios.version", "firmware_version", quantities.words),
    ("vbios.vbios_part_number", "firmware_version", quantities.words),
    ("vbios.vbios_version", "firmware_version", quantities.words),
    ("ifwi.part_number", "firmware_version", quantities.words),
    ("ifwi.version", "firmware_version", quantities.words),
    ("vbios.version", "vbios_version", quantities.words),
    ("vbios.vbios_version", "vbios_version", quantities.words),
    ("ifwi.version", "vbios_version", quantities.words),
    ("driver.version", "driver_version", quantities.driver_version),
    ("driver.driver_version", "driver_version", quantities.driver_version),
    ("driver_version", "driver_version", quantities.driver_version),
    ("limit.socket_power", "power_limit_watts", quantities.watts),
    ("limit.current_power", "power_limit_watts", quantities.watts),
    ("limit.ppt0.socket_power_limit", "power_limit_watts", quantities.watts),
    ("limit.max_power", "power_limit_max_watts", quantities.watts),
    ("limit.ppt0.max_power_limit", "power_limit_max_watts", quantities.watts),
    ("limit.min_power", "power_limit_min_watts", quantities.watts),
    ("limit.ppt0.min_power_limit", "power_limit_min_watts", quantities.watts),
    ("limit.slowdown_edge_temperature", "temperature_slowdown_celsius", quantities.celsius),
    ("limit.slowdown_hotspot_temperature", "temperature_slowdown_celsius", quantities.celsius),
    ("limit.shutdown_edge_temperature", "temperature_shutdown_celsius", quantities.celsius),
    ("limit.shutdown_hotspot_temperature", "temperature_shutdown_celsius", quantities.celsius),
    ("vram.size", "memory_total_bytes", quantities.mebibytes),
    ("vram.vram_size", "memory_total_bytes", quantities.mebibytes),
    ("vram.vram_size_mb", "memory_total_bytes", quantities.mebibytes),
    ("partition.compute_partition", "compute_partition", quantities.partition),
    ("partition.accelerator_partition", "compute_partition", quantities.partition),
    ("partition.memory_partition", "memory_partition", quantities.partition),
    ("numa.node", "numa_node", quantities.numa_node),
)
_LEVEL = re.compile(r"level[ _]([0-9]{1,3})", re.IGNORECASE | re.ASCII)


def parse_static(text: str) -> Parsed:
    return trees.parsed(text, STATIC, _draft)


def _draft(gpu: Tree) -> AmdDraft:
    draft = AmdDraft()
    for path, place, read in _FIELDS:
        if place == "numa_node" and quantities.is_no_numa_node(quantities.text_of(trees.at(gpu, path)) or ""):
            continue
        trees.take(draft, gpu, path, place, read)
    draft.partition = quantities.count(quantities.text_of(trees.at(gpu, "partition.partition_id")) or "")
    _take_ecc_mode(draft, gpu)
    for name, clock in trees.group(gpu, "clock").items():
        if isinstance(clock, dict):
            _take_clock(draft, name, clock)
    return draft


def _take_ecc_mode(draft: AmdDraft, gpu: Tree) -> None:
    """On if it is on in any block of the chip."""
    states = list(trees.leaves(trees.at(gpu, "ras.ecc_block_state")))
    flags = [flag for flag in map(quantities.flag, states) if flag is not None]
    if flags:
        draft.put("ecc_enabled", any(flags))
    elif any(quantities.absence(state) is not None for state in states):
        draft.miss("ecc_enabled", AbsenceReason.NOT_SUPPORTED)


def _take_clock(draft: AmdDraft, name: str, clock: Tree) -> None:
    """A clock steps through levels: the one it is at now, and the highest there is."""
    domain = CLOCKS.get(name.rstrip("0123456789_"))
    levels = trees.group(clock, "frequency_levels")
    if domain is None or not levels:
        return
    hertz = {}
    for title, leaf in levels.items():
        match = _LEVEL.fullmatch(title)
        value = quantities.hertz(quantities.text_of(leaf) or "")
        if match is not None and value is not None:
            hertz[int(match[1])] = value
    current = clock.get("current level", clock.get("current_level"))
    now = quantities.count(quantities.text_of(current) or "")
    if now in hertz and f"clocks.{domain}" not in draft.values:
        draft.put(f"clocks.{domain}", hertz[now])
    highest = max(hertz.values(), default=0)
    if highest and f"clocks.{domain}.max" not in draft.values:
        draft.put(f"clocks.{domain}.max", highest)
