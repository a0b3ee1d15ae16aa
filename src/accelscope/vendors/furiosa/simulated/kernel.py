"""What the driver shows of a card in /sys and /dev."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from accelscope.simulate.folder import BlockingFile, CharacterDevice, Content, Folder, Link
from accelscope.vendors.furiosa.simulated.card import CardReading
from accelscope.vendors.furiosa.simulated.spec import Family, FuriosaSpec, Versions

CLASSES = {Family.WARBOY: "npu_mgmt", Family.RNGD: "rngd_mgmt"}

_DRIVERS = {Family.WARBOY: "npu", Family.RNGD: "rngd"}
_FIRST_MAJOR = 511  # the kernel hands out major numbers from here downwards
# The counters of Warboy's cores: nobody says at which clock they run. At this one 32 bits last 43 seconds, so
# that readings of files that are written once a second can be told apart.
_COUNTER_HERTZ = 100e6
WARBOY_VOLTS = {"NE Core 48V Volt": 47.9, "NE Core Volt": 0.72}
WARBOY_TOTAL = "PCI Total RMS PWR"  # what the whole card draws
GOVERNOR = "performance"
_WITHOUT_PERT = "2026"  # drivers from this year on have no version of their own for the runtime of the cores
_POWER_LIMIT_MILLIWATTS = 300_000
_POWER_MAX_MILLIWATTS = 675_000  # the driver shows it, and it limits nothing
_THROTTLE_NAMES = (
    "IDLE",
    "THERMAL_SLOWDOWN",
    "APP_POWER_CAP",
    "APP_CLOCK_CAP",
    "HW_CLOCK_CAP",
    "HW_BUS_LIMIT",
    "HW_POWER_CAP",
    "GOV_CLOCK_CAP",
    "OTHER_REASON",
)


def pci_files(cards: Iterable[CardReading], *, loaded: bool) -> Iterator[tuple[str, Content]]:
    """Of cards that are on the bus, whether or not their driver is loaded."""
    for card in cards:
        if not card.listed:
            continue
        root = f"pci{card.address.rpartition(':')[0]}"
        folder = f"sys/devices/{root}/{card.address}"
        yield f"sys/bus/pci/devices/{card.address}", Link(f"../../../devices/{root}/{card.address}")
        model = card.model
        yield f"{folder}/vendor", "0x1ed2\n"
        yield f"{folder}/device", f"0x{model.pci_device_code:04x}\n"
        yield f"{folder}/subsystem_vendor", "0x1ed2\n"
        yield f"{folder}/subsystem_device", f"0x{model.pci_device_code:04x}\n"
        yield f"{folder}/revision", "0x00\n"
        yield f"{folder}/class", "0x120000\n"
        if model.virtual_functions:
            yield f"{folder}/sriov_totalvfs", f"{model.virtual_functions}\n"
            yield f"{folder}/sriov_numvfs", "0\n"
        yield f"{folder}/numa_node", f"{card.numa_node}\n"
        for what in ("current", "max"):
            yield f"{folder}/{what}_link_speed", f"{model.link_speed}\n"
            yield f"{folder}/{what}_link_width", f"{model.link_width}\n"
        if loaded:
            driver = f"bus/pci/drivers/{_DRIVERS[model.family]}"
            yield f"sys/{driver}", Folder()
            yield f"{folder}/driver", Link(f"../../../{driver}")
            for name, value in _hwmon(card).items():
                yield f"{folder}/hwmon/hwmon{card.slot + 2}/{name}", f"{value}\n"


def class_files(spec: FuriosaSpec, cards: Iterable[CardReading]) -> Iterator[tuple[str, Content]]:
    for family in {device.model.family for device in spec.devices} or set(CLASSES):
        yield f"sys/class/{CLASSES[family]}", Folder()
    for card in cards:
        if card.index is None:
            continue
        folder = CLASSES[card.model.family]
        name = _entry(card, "mgmt")
        yield f"sys/class/{folder}/{name}", Link(f"../../devices/virtual/{folder}/{name}")
        for attribute, text in _attributes(card, spec.versions(card.model.family)).items():
            yield f"sys/devices/virtual/{folder}/{name}/{attribute}", text
        yield from _core_files(card)
        if card.model.family is Family.RNGD:
            yield from _debugfs(card)


def device_files(cards: Iterable[CardReading]) -> Iterator[tuple[str, Content]]:
    for card in cards:
        if not card.listed:
            continue
        warboy = card.model.family is Family.WARBOY
        folder = "dev" if warboy else "dev/rngd"
        link = "_" if warboy else ""
        channels = [f"ch{channel}" for channel in range(card.model.channels)]
        others = [f"{link}mgmt", *(f"{link}bar{bar}" for bar in (0, 2, 4)), *channels]
        own = [] if warboy else ["dmar", *(f"{channel}r" for channel in channels)]
        files = (
            f"{card.name}{others[0]}",
            *core_files(card),
            *(f"{card.name}{name}" for name in (*others[1:], *own)),
        )
        for minor, name in enumerate(files):
            yield f"{folder}/{name}", CharacterDevice(_major(card), minor)


def core_files(card: CardReading) -> Sequence[str]:
    """Names of the files that open all cores or some: those of fewer cores first."""
    every = [""] if card.model.family is Family.WARBOY else []
    cores = [f"pe{core}" for core in range(card.model.cores)]
    fusions = [f"pe{first}-{last}" for first, last in card.model.fusions]
    return [f"{card.name}{name}" for name in (*every, *cores, *fusions)]


def device_number(card: CardReading) -> str:
    """Major and minor number of the card's management file."""
    return f"{_major(card)}:0"


def _major(card: CardReading) -> int:
    return _FIRST_MAJOR - card.slot


def _entry(card: CardReading, what: str) -> str:
    """Of the driver's class: `npu0_mgmt`, `rngd!npu0mgmt`."""
    if card.model.family is Family.WARBOY:
        return f"{card.name}_{what}" if what == "mgmt" else f"{card.name}{what}"
    return f"rngd!{card.name}{what}"


def _attributes(card: CardReading, versions: Versions) -> Mapping[str, Content]:
    warboy = card.model.family is Family.WARBOY
    # The two families say the opposite: Warboy's 1 is alive, RNGD's 0 is.
    state = "alive" if warboy else "device_state"
    texts = {
        state: f"{int(card.alive if warboy else not card.alive)}",
        "atr_error": "\n".join(f"{name}: {count}" for name, count in card.errors.items()),
        "busname": card.address,
        "dev": device_number(card),
        "device_sn": card.serial,
        "device_type": card.model.device_type,
        "device_uuid": card.uuid,
        "fw_version": versions.firmware,
        "heartbeat": f"{int(card.uptime_seconds)}",
        "platform_type": "FuriosaAI",
        "soc_rev": "B0",
        "version": versions.driver,
    }
    if warboy:
        mhz = card.cores[0].mhz
        texts["ne_clk_freq_info"] = (
            f"ne tensor (MHz): {mhz}\nne memory (MHz): {mhz // 2}\nne operation (MHz): {mhz // 2}\n"
            "dram (MT/s): 4266"
        )
    else:
        texts["npu_clocks"] = "\n".join(str(core.mhz * 1_000_000) for core in card.cores)
        texts["npu_governor"] = GOVERNOR
        if versions.driver < _WITHOUT_PERT:
            texts["pert_version"] = versions.firmware  # which their library needs
        texts["pe_occupancy"] = "\n".join(str(int(core.held)) for core in card.cores)
        texts["throttle_reason"] = f"0x{card.throttle_reasons:08x}"
        texts["throttle_reason_list"] = "\n".join(
            f"0x{1 << bit:08x} THROTTLE_{name}" for bit, name in enumerate(_THROTTLE_NAMES)
        )
    files: dict[str, Content] = {name: f"{text}\n" for name, text in texts.items()}
    if card.hangs:  # what the firmware must be asked for
        files |= dict.fromkeys((state, "atr_error", "heartbeat"), BlockingFile())
    return files


def _core_files(card: CardReading) -> Iterator[tuple[str, Content]]:
    folder = f"sys/class/{CLASSES[card.model.family]}"
    if card.model.family is Family.RNGD:
        for index, used in enumerate(core_memory(card)):
            core = f"{folder}/{_entry(card, f'pe{index}')}"
            yield f"{core}/alloc_status", _alloc_status(card.model.memory_bytes // card.model.cores, used)
            cycles, tasks = rngd_cycles(card, index)
            yield f"{core}/metrics", f"CycleCount: 0x{cycles:x}\nTaskCycleCount: 0x{tasks:x}\n"
        return
    for process in card.processes:
        first, last = process.cores[0], process.cores[-1]
        name = f"pe{first}" if first == last else f"pe{first}-{last}"
        # Counters of a device file that is not open cannot be read; a plain file that is not there is as near
        # as it gets.
        yield f"{folder}/{_entry(card, name)}/perf_regs", _perf_regs(card, first)


def core_memory(card: CardReading) -> Sequence[int]:
    """Bytes in use at each core of an RNGD: a process spreads its memory over the cores that it holds."""
    used = [0] * card.model.cores
    for process in card.processes:
        share, rest = divmod(process.memory_bytes, len(process.cores))
        for core in process.cores:
            used[core] += share
        used[process.cores[0]] += rest
    return used


def rngd_cycles(card: CardReading, core: int) -> tuple[int, int]:
    """Cycles of a core since the card was started, and those in which a task ran."""
    hertz = card.model.core_mhz * 1e6
    return int(card.uptime_seconds * hertz), int(card.cores[core].busy_seconds * hertz)


def _alloc_status(capacity: int, used: int) -> str:
    sizes = {"dram_capacity": capacity, "dram_usage": used, "shared_capacity": 0, "shared_usage": 0}
    return "".join(f"{name}: 0x{size:x}\n" for name, size in sizes.items())


def _perf_regs(card: CardReading, core: int) -> str:
    cycles = int(card.uptime_seconds * _COUNTER_HERTZ)
    tasks = int(card.cores[core].busy_seconds * _COUNTER_HERTZ)
    registers = {
        "ProgramCounter": 0x4C2C,
        "InstructionCount": tasks // 40,
        "TaskExecutionTime": tasks,
        "TensorExecutionTime": tasks // 10 * 9,
        "CycleCount": cycles,
        "CycleCountHigh": cycles >> 32,
    }
    return "".join(f"{name}: 0x{value % (1 << 32):x}\n" for name, value in registers.items())


def _debugfs(card: CardReading) -> Iterator[tuple[str, Content]]:
    folder = f"sys/kernel/debug/rngd/mgmt{card.index}"
    yield f"{folder}/power_limit_mw", f"{_POWER_LIMIT_MILLIWATTS}\n"
    yield f"{folder}/power_limit_default_mw", f"{_POWER_LIMIT_MILLIWATTS}\n"
    yield f"{folder}/power_max_mw", f"{_POWER_MAX_MILLIWATTS}\n"


def _hwmon(card: CardReading) -> Mapping[str, object]:
    """Files and values; sensors in the order of their labels, as the driver has them."""
    warboy = card.model.family is Family.WARBOY
    files: dict[str, object] = {"name": _DRIVERS[card.model.family]}
    for number, (label, celsius) in enumerate(temperatures(card).items(), 1):
        files |= {f"temp{number}_label": label, f"temp{number}_input": round(1000 * celsius)}
    powers = warboy_powers(card) if warboy else {"RMS_TOTAL": card.watts}
    for number, (label, watts) in enumerate(powers.items(), 1):
        files |= {f"power{number}_label": label, f"power{number}_average": round(1e6 * watts)}
    if not warboy:
        files["power1_max"] = 1000 * _POWER_LIMIT_MILLIWATTS
    if warboy:
        for number, (label, value) in enumerate(WARBOY_VOLTS.items()):
            files |= {f"in{number}_label": label, f"in{number}_input": round(1000 * value)}
        for number, (label, value) in enumerate(warboy_amperes(card).items(), 1):
            files |= {f"curr{number}_label": label, f"curr{number}_input": round(1000 * value)}
    return files


def temperatures(card: CardReading) -> Mapping[str, float]:
    peak, coolest = card.peak_celsius, min(core.celsius for core in card.cores)
    if card.model.family is Family.RNGD:
        cores = {f"NPU_PE{index}": core.celsius for index, core in enumerate(card.cores)}
        return {"AMBIENT": card.ambient_celsius, **cores, "PEAK": peak}
    return {
        "AMBIENT": card.ambient_celsius,
        "Average": (peak + coolest) / 2 - 1,
        "LPDDR4": peak - 4,
        "NE": peak - 0.5,
        **{f"NE_PE{index}": core.celsius for index, core in enumerate(card.cores)},
        "NE_TOP": peak - 1,
        "PCIE": peak - 3,
        "Peak": peak,
        "U74M": peak - 2,
    }


def warboy_powers(card: CardReading) -> Mapping[str, float]:
    core = card.watts * card.model.core_power_share
    return {
        "NE 12V PWR": card.watts * 0.5,
        "NE Core RMS PWR": core,
        "NE PWR": core * 1.1,
        "PCI 12V PWR": card.watts * 0.8,
        "PCI 3.3V PWR": card.watts * 0.2,
        WARBOY_TOTAL: card.watts,
    }


def warboy_amperes(card: CardReading) -> Mapping[str, float]:
    return {
        "NE 12V Curr": card.watts * 0.5 / 12,
        "NE Current": card.watts * card.model.core_power_share / WARBOY_VOLTS["NE Core Volt"],
        "PCI 12V Curr": card.watts * 0.8 / 12,
        "PCI 3.3V Curr": card.watts * 0.2 / 3.3,
    }
