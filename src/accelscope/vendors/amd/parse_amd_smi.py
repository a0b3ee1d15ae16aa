"""The subcommands of amd-smi with nested output, as JSON or text: `metric`, `static`, `xgmi` and
`process`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from accelscope.model import AbsenceReason, Health, HealthState, Link, Process, pci_address
from accelscope.parsing import ParseResult, Rejections
from accelscope.vendors.amd import documents, quantities
from accelscope.vendors.amd.documents import Tree
from accelscope.vendors.amd.draft import AmdDraft, number_dies
from accelscope.vendors.common.values import identifier, program_name

# `amd-smi metric`: measurements of each GPU.

METRIC = "amd-smi metric"

# Path in the document, place in the draft, how to read it. Of several paths for one place the first with a
# value is used. Visible VRAM is only the part that the CPU can address, so it is not used as the card's
# memory.
_METRIC_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
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
# Domains of clocks, by their names in the document without the number.
_CLOCKS = {
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
_XGMI_OK = ("0", "no_errors", "amdsmi_xgmi_status_no_errors")


def parse_metric(text: str) -> ParseResult:
    return documents.parse_gpus(text, METRIC, _metric_draft)


def _metric_draft(gpu: Tree) -> AmdDraft:
    draft = AmdDraft()
    for path, place, read in _METRIC_FIELDS:
        documents.take(draft, gpu, path, place, read)
    _take_engines(draft, gpu)
    _take_clocks(draft, documents.group(gpu, "clock"))
    _take_throttles(draft, documents.group(gpu, "throttle"))
    _take_ecc_blocks(draft, documents.group(gpu, "ecc_blocks"))
    _drop_ecc_without_blocks(draft, gpu)
    _take_raw_fan(draft, documents.group(gpu, "fan"))
    _take_link_errors(draft, gpu)
    return draft


def _take_engines(draft: AmdDraft, gpu: Tree) -> None:
    """A chip has several video and JPEG engines; missing ones are `N/A`. Older chips list them by engine,
    newer ones (`gpu_metrics` from 1.7 on) by partition. Like `amd-smi monitor`, use the mean of the video
    engines as decoder utilization."""
    usage = documents.group(gpu, "usage")
    for engine, place in (("vcn", "decoder_utilization_ratio"), ("jpeg", "jpeg_utilization_ratio")):
        listed = usage.get(f"{engine}_activity")
        ratios = _ratios(listed) if isinstance(listed, list) else []
        if not ratios:
            by_partition = _by_partition(usage, f"{engine}_busy")
            ratios = [ratio for engines in by_partition.values() for ratio in _ratios(engines)]
        if ratios:
            draft.put(place, round(sum(ratios) / len(ratios), 9))
    busy = _by_partition(usage, "gfx_busy_inst")
    for number, use in number_dies({part: [_ratio(leaf) for leaf in dies] for part, dies in busy.items()}):
        draft.put(f"cores.{number}.use", use)


def _by_partition(usage: Tree, name: str) -> dict[int, list[object]]:
    found = {}
    for key, listed in documents.group(usage, name).items():
        number = key.lower().removeprefix("xcp_")
        if isinstance(listed, list) and number.isascii() and number.isdecimal() and len(number) < 4:
            found[int(number)] = listed
    return found


def _ratios(listed: list[object]) -> list[float]:
    return [ratio for ratio in map(_ratio, listed) if ratio is not None]


def _ratio(leaf: object) -> float | None:
    text = quantities.text_of(leaf)
    return None if text is None else quantities.ratio(text)


def _take_clocks(draft: AmdDraft, clocks: Mapping[str, object]) -> None:
    """`gfx_0` to `gfx_7` are the clocks of the compute dies; the first with a value is the GPU's."""
    running = []
    for name, clock in clocks.items():
        kind, _, number = name.partition("_")
        domain = _CLOCKS.get(kind)
        if domain is None or not isinstance(clock, dict):
            continue
        for key, suffix, read in (
            ("clk", "", quantities.hertz),
            ("cur_clk", "", quantities.hertz),
            ("max_clk", ".max", quantities.highest_hertz),
        ):
            if key == "max_clk" and documents.is_zero(clock.get(key)):
                continue  # some drivers print 0 for an unknown maximum
            documents.take(draft, clock, key, f"clocks.{domain}{suffix}", read, source=f"clock.{name}.{key}")
        hertz = quantities.hertz(quantities.text_of(clock.get("clk")) or "")
        if kind == "gfx" and number.isdecimal() and len(number) < 4 and hertz is not None:
            running.append((int(number), hertz))
    if len(running) > 1:
        for die, hertz in running:
            draft.put(f"cores.{die}.clock", hertz)


def _take_throttles(draft: AmdDraft, violations: Mapping[str, object]) -> None:
    """Newer chips report some reasons for each compute die. One throttled die is enough."""
    for name, leaf in violations.items():
        if not name.endswith(_VIOLATION):
            continue
        place = f"throttles.{name.removesuffix(_VIOLATION)}"
        flags = [quantities.flag(text) for text in documents.leaves(leaf)]
        known = [flag for flag in flags if flag is not None]
        if known:
            draft.put(place, any(known))
        else:
            for text in list(documents.leaves(leaf))[:1]:
                draft.take(place, text, quantities.flag, name)


def _take_ecc_blocks(draft: AmdDraft, blocks: Mapping[str, object]) -> None:
    for name, counts in blocks.items():
        if isinstance(counts, dict) and name.replace("_", "").isalnum() and len(name) <= 32:
            for key, severity in _SEVERITIES.items():
                documents.take(
                    draft,
                    counts,
                    key,
                    f"ecc.{severity}.{name.lower()}",
                    quantities.count,
                    source=f"ecc_blocks.{name}.{key}",
                )


def _drop_ecc_without_blocks(draft: AmdDraft, gpu: Tree) -> None:
    """For a card without ECC the tool prints totals of 0 and no ECC blocks."""
    totals = [place for place in draft.values if place.partition(".")[0] == "ecc"]
    if totals and gpu.get("ecc_blocks") in ("N/A", {}) and not any(draft.values[place] for place in totals):
        for place in totals:
            del draft.values[place]
            draft.miss(place, AbsenceReason.NOT_SUPPORTED)


def _take_raw_fan(draft: AmdDraft, fan: Mapping[str, object]) -> None:
    """If the tool prints no percentage, compute the ratio from the current and the highest step."""
    if "fans.0.ratio" in draft.values:
        return
    speed, top = (quantities.count(quantities.text_of(fan.get(key)) or "") for key in ("speed", "max"))
    if speed is not None and top and speed <= top:
        draft.put("fans.0.ratio", round(speed / top, 9))


def _take_link_errors(draft: AmdDraft, gpu: Tree) -> None:
    status = quantities.text_of(documents.at(gpu, "xgmi_err")) or ""
    if quantities.absence(status) is None and status.casefold() not in _XGMI_OK:
        word = status[:100]
        draft.health = Health(
            HealthState.WARNING, f"XGMI link errors: {word}", word, "xgmi_errors", origin="hardware"
        )


# `amd-smi static`: identity and limits of each GPU.

STATIC = "amd-smi static"

# The firmware version is the part number of the VBIOS, as in the driver's files and in rocm-smi. From ROCm
# 7.1 on, the tool calls the VBIOS IFWI.
_STATIC_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("asic.market_name", "model", quantities.name),
    ("board.product_name", "model", quantities.name),
    ("board.model_number", "part_number", identifier),
    ("board.product_number", "part_number", identifier),
    ("asic.device_id", "pci_device_id", quantities.pci_device_id),
    ("asic.asic_serial", "uuid", quantities.unique_id),
    ("asic.target_graphics_version", "architecture", quantities.architecture),
    ("board.product_serial", "serial", identifier),
    ("board.product_serial_number", "serial", identifier),
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


def parse_static(text: str) -> ParseResult:
    return documents.parse_gpus(text, STATIC, _static_draft)


def _static_draft(gpu: Tree) -> AmdDraft:
    draft = AmdDraft()
    for path, place, read in _STATIC_FIELDS:
        if place == "numa_node" and quantities.is_no_numa_node(
            quantities.text_of(documents.at(gpu, path)) or ""
        ):
            continue
        documents.take(draft, gpu, path, place, read)
    draft.partition = quantities.count(quantities.text_of(documents.at(gpu, "partition.partition_id")) or "")
    _take_ecc_mode(draft, gpu)
    for name, clock in documents.group(gpu, "clock").items():
        if isinstance(clock, dict):
            _take_clock_levels(draft, name, clock)
    return draft


def _take_ecc_mode(draft: AmdDraft, gpu: Tree) -> None:
    """ECC is enabled if it is enabled in any block of the chip."""
    states = list(documents.leaves(documents.at(gpu, "ras.ecc_block_state")))
    flags = [flag for flag in map(quantities.flag, states) if flag is not None]
    if flags:
        draft.put("ecc_enabled", any(flags))
    elif any(quantities.absence(state) is not None for state in states):
        draft.miss("ecc_enabled", AbsenceReason.NOT_SUPPORTED)


def _take_clock_levels(draft: AmdDraft, name: str, clock: Tree) -> None:
    """A clock has levels; take the current and the highest one."""
    domain = _CLOCKS.get(name.rstrip("0123456789_"))
    levels = documents.group(clock, "frequency_levels")
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


# `amd-smi xgmi`: the links of each GPU to the others, with their state and traffic.

XGMI = "amd-smi xgmi"

_STATES = {"U": True, "D": False}  # up, down; X is no link; SELF is the GPU itself
# A table of states in the order of the ports. The output does not contain where a port leads, so it is
# ignored.
_BY_PORT = "link_port_status"


def parse_links(text: str) -> ParseResult:
    """GPUs with only their links. The tool prints a table of traffic and one of states. They are joined by
    the position of a link, which is that of the other GPU."""
    rejected = Rejections()
    found: dict[int, AmdDraft] = {}
    entries, error = documents.gpu_trees(text, rejected, leave_out=_BY_PORT)
    for key, read in (("link_metrics", _links), ("link_status", _with_states)):
        for entry in entries:
            index = quantities.count(quantities.text_of(entry["gpu"]) or "")
            if index is None or key not in entry:
                continue
            draft = found.setdefault(index, AmdDraft())
            draft.put("index", index)
            documents.take(draft, entry, "bdf", "pci_address", pci_address)
            draft.links = read(draft, entry)
    for draft in found.values():
        draft.links = tuple(filter(_exists, draft.links))
    if not found and error is None:
        error = documents.no_devices_error(text, XGMI)
    return ParseResult(
        devices=documents.build_devices(list(found.values())), error=error, rejected=rejected.listed()
    )


def _links(gpu: AmdDraft, entry: Tree) -> tuple[Link, ...]:
    """Links with their traffic. The list contains the GPU itself, with its own address, which is left out."""
    metrics, own = documents.group(entry, "link_metrics"), gpu.values.get("pci_address")
    listed = metrics.get("links")
    rate = quantities.bits_per_second(quantities.text_of(metrics.get("max_bandwidth")) or "")
    links = []
    for number, link in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(link, dict):
            continue
        read, written = (
            quantities.memory(quantities.text_of(link.get(key)) or "") for key in ("read", "write")
        )
        links.append(
            Link(
                "xgmi",
                number,
                remote=pci_address(quantities.text_of(link.get("bdf")) or ""),
                bytes_per_second=rate,
                transmit_bytes_total=written,
                receive_bytes_total=read,
            )
        )
    return tuple(link for link in links if link.remote is None or link.remote != own)


def _exists(link: Link) -> bool:
    """An entry without traffic and state may be no link."""
    traffic = (link.transmit_bytes_total, link.receive_bytes_total)
    return link.active is not None or any(amount is not None for amount in traffic)


def _with_states(gpu: AmdDraft, entry: Tree) -> tuple[Link, ...]:
    states = entry["link_status"]
    if not isinstance(states, list):
        return gpu.links
    active = {
        number: _STATES[state]
        for number, state in enumerate(states)
        if isinstance(state, str) and state in _STATES
    }
    if not gpu.links:
        return tuple(Link("xgmi", number, active=up) for number, up in active.items())
    return tuple(replace(link, active=active.get(link.index)) for link in gpu.links)


# `amd-smi process`: the processes of each GPU.

PROCESS = "amd-smi process"

_NO_PROCESSES = "no running processes"
_LISTS = ("process_list", "process_info", "processes")


def parse_process(text: str) -> ParseResult:
    rejected = Rejections()
    entries, error = documents.gpu_trees(text, rejected)
    entries = [entry for entry in entries if any(key in entry for key in _LISTS)]
    if not entries and error is None:
        error = documents.no_devices_error(text, PROCESS)
    found: dict[tuple[int, int], ListedProcess] = {}
    for entry in entries:
        index = quantities.count(quantities.text_of(entry["gpu"]) or "")
        if index is None:
            rejected.add(f"gpu: {str(entry['gpu'])[:100]}", "no_identity")
            continue
        for info in _infos(entry, rejected):
            listed = _listed_process(info, index)
            if listed is None:
                rejected.add(f"pid: {str(info.get('pid'))[:100]}", "not_a_process")
            else:
                found[index, listed.process.pid] = listed
    return ParseResult(processes=with_memory(list(found.values())), error=error, rejected=rejected.listed())


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process under one GPU."""

    process: Process
    gpu_memory: int | None  # bytes on this GPU, from the compute driver
    total_memory: int | None  # bytes on all its GPUs, from the graphics driver: the same under each GPU


def with_memory(listed: list[ListedProcess]) -> tuple[Process, ...]:
    """The memory of each process on each GPU. If the tool prints only the total over all GPUs, it is used for
    a process on one GPU. For several GPUs the output does not contain how it is divided."""
    gpus = Counter(entry.process.pid for entry in listed)
    processes = []
    for entry in listed:
        memory = entry.gpu_memory
        if memory is None and gpus[entry.process.pid] == 1:
            memory = entry.total_memory
        processes.append(replace(entry.process, memory_bytes=memory))
    return tuple(processes)


def _infos(entry: Tree, rejected: Rejections) -> Iterator[Tree]:
    """Newer versions wrap each process in `process_info`. Without processes, a message takes the place of a
    process."""
    listed = next(entry[key] for key in _LISTS if key in entry)
    for item in listed if isinstance(listed, list) else [listed]:
        info = item.get("process_info", item) if isinstance(item, dict) else item
        if isinstance(info, dict):
            yield info
        elif (
            isinstance(info, str)
            and quantities.absence(info) is None
            and _NO_PROCESSES not in info.casefold()
        ):
            rejected.add(info, "not_a_process")


def _listed_process(info: Tree, index: int) -> ListedProcess | None:
    pid = quantities.count(quantities.text_of(info.get("pid")) or "")
    if not pid:
        return None
    process = Process(
        pid=pid,
        device_index=index,
        name=program_name(quantities.text_of(info.get("name")) or "", quantities.absence),
    )
    gpu_memory = quantities.text_of(info.get("mem_usage", info.get("mem"))) or ""
    total_memory = quantities.text_of(documents.at(info, "memory_usage.vram_mem")) or ""
    return ListedProcess(process, quantities.memory(gpu_memory), quantities.memory(total_memory))
