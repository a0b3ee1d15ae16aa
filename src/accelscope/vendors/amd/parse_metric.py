"""`amd-smi metric --json` (and its text form): what every GPU is doing."""

from collections.abc import Iterator, Mapping

from accelscope.model import AbsenceReason, Health, HealthState
from accelscope.parsing.parsed import Parsed
from accelscope.vendors.amd import quantities, trees
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.trees import Tree

METRIC = "amd-smi metric"

# Path in the document, place in the model, how to read it. Of several paths for one place the first with a
# value is taken. Visible VRAM is the part that the processor can address, so it does not stand in for the
# memory of the card.
_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("usage.gfx_activity", "utilization_ratio", quantities.ratio),
    ("usage.gfx_usage", "utilization_ratio", quantities.ratio),
    ("usage.umc_activity", "memory_utilization_ratio", quantities.ratio),
    ("power.socket_power", "power_watts", quantities.watts),
    ("power.current_socket_power", "power_watts", quantities.watts),
    ("power.average_socket_power", "power_watts", quantities.watts),
    ("power.current_power", "power_watts", quantities.watts),
    ("power.power_limit", "power_limit_watts", quantities.watts),
    ("power.gfx_voltage", "rails.gfx", quantities.volts),
    ("power.soc_voltage", "rails.soc", quantities.volts),
    ("power.mem_voltage", "rails.mem", quantities.volts),
    ("voltage.vddboard", "rails.board", quantities.volts),
    ("power.throttle_status", "throttles.any", quantities.flag),
    ("temperature.edge", "sensors.edge", quantities.celsius),
    ("temperature.hotspot", "sensors.junction", quantities.celsius),
    ("temperature.junction", "sensors.junction", quantities.celsius),
    ("temperature.mem", "sensors.memory", quantities.celsius),
    ("mem_usage.total_vram", "memory_total_bytes", quantities.mebibytes),
    ("mem_usage.used_vram", "memory_used_bytes", quantities.mebibytes),
    ("mem_usage.free_vram", "memory_free_bytes", quantities.mebibytes),
    ("energy.total_energy_consumption", "energy_joules", quantities.joules),
    ("pcie.speed", "pcie.generation", quantities.generation),
    ("pcie.current_speed", "pcie.generation", quantities.generation),
    ("pcie.width", "pcie.width", quantities.lanes),
    ("pcie.current_width", "pcie.width", quantities.lanes),
    ("pcie.current_lanes", "pcie.width", quantities.lanes),
    ("pcie.replay_count", "pcie.replays_total", quantities.count),
    ("pcie.bandwidth", "pcie.bytes_per_second", quantities.bits_per_second),
    ("pcie.current_bandwidth_sent", "pcie.transmit_bytes_per_second", quantities.bits_per_second),
    ("pcie.current_bandwidth_received", "pcie.receive_bytes_per_second", quantities.bits_per_second),
    ("pcie.l0_to_recovery_count", "errors.pcie.recovery", quantities.count),
    ("pcie.replay_roll_over_count", "errors.pcie.replay_rollover", quantities.count),
    ("pcie.nak_sent_count", "errors.pcie.nak_sent", quantities.count),
    ("pcie.nak_received_count", "errors.pcie.nak_received", quantities.count),
    ("ecc.total_correctable_count", "ecc.corrected", quantities.count),
    ("ecc.total_correctable", "ecc.corrected", quantities.count),
    ("ecc.total_uncorrectable_count", "ecc.uncorrected", quantities.count),
    ("ecc.total_uncorrectable", "ecc.uncorrected", quantities.count),
    ("ecc.total_deferred_count", "ecc.deferred", quantities.count),
    ("fan.usage", "fans.0.ratio", quantities.ratio),
    ("fan.rpm", "fans.0.rpm", quantities.rpm),
)
_SEVERITIES = {
    "correctable_count": "corrected",
    "uncorrectable_count": "uncorrected",
    "deferred_count": "deferred",
}
# Name of a clock in the document, without its number, and its domain.
CLOCKS = {
    "gfx": "graphics",
    "sys": "graphics",
    "mem": "memory",
    "vclk": "video",
    "dclk": "data",
    "fclk": "fabric",
    "df": "fabric",
    "socclk": "soc",
    "soc": "soc",
    "dcef": "display",
    "dcefclk": "display",
}
_VIOLATION = "_violation_status"
_XGMI_IS_WELL = ("0", "no_errors", "amdsmi_xgmi_status_no_errors")


def parse_metric(text: str) -> Parsed:
    return trees.parsed(text, METRIC, _draft)


def _draft(gpu: Tree) -> AmdDraft:
    draft = AmdDraft()
    for path, place, read in _FIELDS:
        trees.take(draft, gpu, path, place, read)
    _take_engines(draft, gpu)
    _take_clocks(draft, trees.group(gpu, "clock"))
    _take_throttles(draft, trees.group(gpu, "throttle"))
    _take_blocks(draft, trees.group(gpu, "ecc_blocks"))
    _drop_ecc_of_no_block(draft, gpu)
    _take_raw_fan(draft, trees.group(gpu, "fan"))
    _judge_links(draft, gpu)
    return draft


def _take_engines(draft: AmdDraft, gpu: Tree) -> None:
    """A chip has several video and JPEG engines; missing ones are `N/A`. Older chips list them by engine,
    newer ones (`gpu_metrics` from 1.7 on) by partition. The tool's own monitor shows the mean of the video
    engines as decoder utilization."""
    usage = trees.group(gpu, "usage")
    for engine, place in (("vcn", "decoder_utilization_ratio"), ("jpeg", "jpeg_utilization_ratio")):
        listed = usage.get(f"{engine}_activity")
        ratios = _given(listed) if isinstance(listed, list) else []
        if not ratios:
            by_partition = _by_partition(usage, f"{engine}_busy")
            ratios = [ratio for engines in by_partition.values() for ratio in _given(engines)]
        if ratios:
            draft.put(place, round(sum(ratios) / len(ratios), 9))
    for number, use in _compute_dies(usage):
        draft.put(f"cores.{number}.use", use)


def _compute_dies(usage: Tree) -> Iterator[tuple[int, float]]:
    """Use of the compute dies (XCC) by number, where the chip reports each. They are grouped by partition,
    as many in each; the list of a partition has `N/A` for the dies of the others at its end."""
    partitions = {
        number: [_ratio(leaf) for leaf in listed]
        for number, listed in _by_partition(usage, "gfx_busy_inst").items()
    }
    sizes = [place + 1 for dies in partitions.values() for place, use in enumerate(dies) if use is not None]
    for partition, dies in sorted(partitions.items()):
        for place, use in enumerate(dies):
            if use is not None:
                yield partition * max(sizes) + place, use


def _by_partition(usage: Tree, name: str) -> dict[int, list[object]]:
    found = {}
    for key, listed in trees.group(usage, name).items():
        number = key.lower().removeprefix("xcp_")
        if isinstance(listed, list) and number.isascii() and number.isdecimal() and len(number) < 4:
            found[int(number)] = listed
    return found


def _given(listed: list[object]) -> list[float]:
    return [ratio for ratio in map(_ratio, listed) if ratio is not None]


def _ratio(leaf: object) -> float | None:
    text = quantities.text_of(leaf)
    return None if text is None else quantities.ratio(text)


def _take_clocks(draft: AmdDraft, clocks: Mapping[str, object]) -> None:
    """`gfx_0` to `gfx_7` are the clocks of the compute dies; the first of them that runs is the GPU's."""
    running = []
    for name, clock in clocks.items():
        kind, _, number = name.partition("_")
        domain = CLOCKS.get(kind)
        if domain is None or not isinstance(clock, dict):
            continue
        for key, suffix, read in (
            ("clk", "", quantities.hertz),
            ("cur_clk", "", quantities.hertz),
            ("max_clk", ".max", quantities.highest_hertz),
        ):
            if key == "max_clk" and trees.is_zero(clock.get(key)):
                continue  # some drivers print 0 for a bound that they do not know
            trees.take(draft, clock, key, f"clocks.{domain}{suffix}", read, source=f"clock.{name}.{key}")
        hertz = quantities.hertz(quantities.text_of(clock.get("clk")) or "")
        if kind == "gfx" and number.isdecimal() and len(number) < 4 and hertz is not None:
            running.append((int(number), hertz))
    if len(running) > 1:
        for die, hertz in running:
            draft.put(f"cores.{die}.clock", hertz)


def _take_throttles(draft: AmdDraft, violations: Mapping[str, object]) -> None:
    """Newer chips tell some of them for each compute die: one that is held back is enough."""
    for name, leaf in violations.items():
        if not name.endswith(_VIOLATION):
            continue
        place = f"throttles.{name.removesuffix(_VIOLATION)}"
        flags = [quantities.flag(text) for text in trees.leaves(leaf)]
        told = [flag for flag in flags if flag is not None]
        if told:
            draft.put(place, any(told))
        else:
            for text in list(trees.leaves(leaf))[:1]:
                draft.take(place, text, quantities.flag, name)


def _take_blocks(draft: AmdDraft, blocks: Mapping[str, object]) -> None:
    for name, counts in blocks.items():
        if isinstance(counts, dict) and name.replace("_", "").isalnum() and len(name) <= 32:
            for key, severity in _SEVERITIES.items():
                trees.take(
                    draft,
                    counts,
                    key,
                    f"ecc.{severity}.{name.lower()}",
                    quantities.count,
                    source=f"ecc_blocks.{name}.{key}",
                )


def _drop_ecc_of_no_block(draft: AmdDraft, gpu: Tree) -> None:
    """For a card without ECC the tool prints totals of 0 and no block that could count an error."""
    totals = [place for place in draft.values if place.partition(".")[0] == "ecc"]
    if totals and gpu.get("ecc_blocks") in ("N/A", {}) and not any(draft.values[place] for place in totals):
        for place in totals:
            del draft.values[place]
            draft.miss(place, AbsenceReason.NOT_SUPPORTED)


def _take_raw_fan(draft: AmdDraft, fan: Mapping[str, object]) -> None:
    """Where the share is not told: the step that is set, of those that there are."""
    if "fans.0.ratio" in draft.values:
        return
    speed, top = (quantities.count(quantities.text_of(fan.get(key)) or "") for key in ("speed", "max"))
    if speed is not None and top and speed <= top:
        draft.put("fans.0.ratio", round(speed / top, 9))


def _judge_links(draft: AmdDraft, gpu: Tree) -> None:
    told = quantities.text_of(trees.at(gpu, "xgmi_err")) or ""
    if quantities.absence(told) is None and told.casefold() not in _XGMI_IS_WELL:
        word = told[:100]
        draft.health = Health(HealthState.WARNING, f"the links to other GPUs have errors: {word}", word)
