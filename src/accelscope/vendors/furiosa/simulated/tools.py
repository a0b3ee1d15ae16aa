"""What furiosa-smi and furiosactl answer in common: errors, and what the driver's faults make of them."""

import json
from collections.abc import Iterable, Iterator, Sequence

from accelscope.simulate.faults import FaultKind
from accelscope.simulate.vendor import Tool, ToolAnswer
from accelscope.simulate.workload import SECRET_ARGUMENT
from accelscope.vendors.furiosa.simulated.card import CardReading, CoreReading
from accelscope.vendors.furiosa.simulated.spec import CtlVersion, FuriosaSpec, SmiVersion

# In the words of the vendor's library; what the tools themselves print around them nobody has captured.
NO_DEVICE = ToolAnswer(error_text="Error: device not found error\n", exit_code=1)
ERRORS = {
    "no_devices": NO_DEVICE,
    "no_permission": ToolAnswer(error_text="Error: permission denied error\n", exit_code=1),
    "io": ToolAnswer(error_text="Error: io error\n", exit_code=1),
    "busy": ToolAnswer(error_text="Error: device busy error\n", exit_code=1),
}
UNKNOWN = ToolAnswer(error_text="error: unexpected argument found\n\nUsage: <COMMAND>\n", exit_code=2)
_MISMATCH = ToolAnswer(error_text="Error: incompatible driver error\n", exit_code=1)


def instead(tool: str, kinds: Iterable[FaultKind], cards: Iterable[CardReading]) -> Iterator[ToolAnswer]:
    """What comes before all other answers when driver or cards are not well. `cards` are the tool's own."""
    kinds = frozenset(kinds)
    if FaultKind.LIBRARY_MISSING in kinds:
        yield ToolAnswer(
            error_text=f"{tool}: error while loading shared libraries: libfuriosa_smi.so: cannot open shared "
            "object file: No such file or directory\n",
            exit_code=127,
        )
    if FaultKind.DRIVER_NOT_LOADED in kinds:
        yield NO_DEVICE
    if FaultKind.VERSION_MISMATCH in kinds:
        yield _MISMATCH
    if any(card.hangs and card.listed for card in cards):
        yield ToolAnswer(hangs=True)


def watts(value: float) -> str:
    return f"{value:.2f} W"


def command(name: str) -> str:
    """A process with arguments, which readers must not keep."""
    return f"/usr/bin/{name} {SECRET_ARGUMENT}"


# --- drawing ------------------------------------------------------------
# Tables as the tools draw them: a rule around every row, cells of several lines within one.


Cell = str | Sequence[str]  # lines


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]], *, rules_between: bool = True) -> str:
    """A cell of fewer lines than its row stands in the middle, as names beside a list of cores do."""
    lines = [[_lines(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line) for row in lines for line in row[column]) for column in range(len(header))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    drawn = [_row(row, widths) for row in lines]
    body = rule.join(drawn[1:]) if rules_between else "".join(drawn[1:])
    return rule + drawn[0] + rule + body + (rule if rows else "")


def _lines(cell: Cell) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else tuple(cell)


def _row(cells: Sequence[tuple[str, ...]], widths: Sequence[int]) -> str:
    height = max(map(len, cells))
    columns = []
    for cell, width in zip(cells, widths, strict=True):
        above = (height - len(cell)) // 2
        padded = ("",) * above + cell + ("",) * (height - len(cell) - above)
        columns.append([line.ljust(width) for line in padded])
    return "".join("| " + " | ".join(line) + " |\n" for line in zip(*columns, strict=True))


# --- smi ------------------------------------------------------------
# furiosa-smi in its versions: tables up to 2025, JSON and memory from 2026 on.


SMI_NAME = "furiosa-smi"
_GIB = 1 << 30


def smi_tool(spec: FuriosaSpec) -> Tool:
    return Tool(name=SMI_NAME, cost=spec.tool, errors=ERRORS)


class Smi:
    def __init__(self, spec: FuriosaSpec) -> None:
        self._spec = spec
        self._version = spec.furiosa_smi

    @property
    def _modern(self) -> bool:
        return self._version is SmiVersion.V2026_1

    def answers(self, cards: Sequence[CardReading]) -> Iterator[ToolAnswer]:
        if self._modern:
            yield ToolAnswer(patterns=("info --format json",), text=_document([self._info(c) for c in cards]))
            yield ToolAnswer(patterns=("status --format json",), text=_document(list(map(_status, cards))))
        yield ToolAnswer(patterns=("info",), text=self._info_table(cards, full=False))
        yield ToolAnswer(
            patterns=("info --format full", "info --full"), text=self._info_table(cards, full=True)
        )
        yield ToolAnswer(patterns=("status",), text=self._status_table(cards))
        yield ToolAnswer(patterns=("ps",), text=self._ps_table(cards))
        yield ToolAnswer(
            patterns=("version",),
            text=f"- furiosa-smi:     {self._version}.0\n- device driver:   {self._spec.rngd.driver}\n",
        )
        yield UNKNOWN

    def _firmware(self) -> str:
        text = self._spec.rngd.firmware
        return text if self._modern else text.replace(", ", "+")

    def _info(self, card: CardReading) -> dict[str, str]:
        return {
            "arch": card.model.family.value,
            "dev_name": card.name,
            "device_uuid": card.uuid,
            "device_sn": card.serial,
            "firmware": self._firmware(),
            "temperature": _celsius(card),
            "power": watts(card.watts),
            "core_clock": f"{card.cores[0].mhz} MHz",
            "governor": "Performance",
            "pci_bdf": card.address,
            "pci_dev": f"{511 - card.slot}:0",
        }

    def _info_table(self, cards: Sequence[CardReading], *, full: bool) -> str:
        pert = self._version is SmiVersion.V2025_2
        header = ["Arch", "Device"]
        header += ["UUID", "S/N"] if full else []
        header += ["Firmware", *(["PERT"] if pert else []), "Temp.", "Power"]
        if full:
            header += ["Core Clock", "Governor"] if self._modern else ["Clock"]
        header += ["PCI-BDF", *(["PCI-DEV"] if full else [])]
        rows = []
        for card in cards:
            told = self._info(card)
            cells = {
                "Arch": told["arch"],
                "Device": told["dev_name"],
                "UUID": told["device_uuid"],
                "S/N": told["device_sn"],
                "Firmware": told["firmware"],
                "PERT": "2025.2.0+91fe3c2",
                "Temp.": told["temperature"],
                "Power": told["power"],
                "Clock": "N/A",
                "Core Clock": told["core_clock"],
                "Governor": told["governor"],
                "PCI-BDF": told["pci_bdf"],
                "PCI-DEV": told["pci_dev"],
            }
            rows.append([cells[name] for name in header])
        return table(header, rows)

    def _status_table(self, cards: Sequence[CardReading]) -> str:
        header = ["Arch", "Device"]
        header += [] if self._version is SmiVersion.V2024_1 else ["Liveness"]
        header += ["Memory" if self._modern else "Cores", "Core Utilization"]
        rows = []
        for card in cards:
            used, total = card.memory_used_bytes, card.model.memory_bytes
            cells: dict[str, Cell] = {
                "Arch": card.model.family.value,
                "Device": card.name,
                "Liveness": "alive" if card.alive else "dead",
                "Memory": (
                    f"{used / _GIB:.2f}/{total / _GIB:.2f} GiB",
                    f"({100 * used / total:.2f}%)",
                ),
                "Cores": _listed(
                    f"{index} ({'occupied' if core.held else 'available'})"
                    for index, core in enumerate(card.cores)
                ),
                "Core Utilization": self._utilizations(card.cores),
            }
            rows.append([cells[name] for name in header])
        return table(header, rows)

    def _utilizations(self, cores: Sequence[CoreReading]) -> Sequence[str]:
        shown = [
            f"Core {index}: {100 * core.utilization:.2f}%"
            if core.held or not self._modern
            else f"Core {index}: -"
            for index, core in enumerate(cores)
        ]
        return shown if self._modern else _listed(shown)

    def _ps_table(self, cards: Sequence[CardReading]) -> str:
        held = [(process, card) for card in cards for process in card.processes]
        if self._version is SmiVersion.V2024_1:
            rows = [
                [f"{card.name}pe{p.cores[0]}-{p.cores[-1]}", str(p.pid), command(p.name)] for p, card in held
            ]
            return table(["NPU", "PID", "CMD"], rows)
        pids = dict.fromkeys(process.pid for process, _ in held)
        rows = []
        for pid in pids:
            own = [(process, card) for process, card in held if process.pid == pid]
            where = ", ".join(f"{card.name}:{_range(process.cores)}" for process, card in own)
            rows.append([str(pid), where, command(own[0][0].name)])
        return table(["PID", "NPU core", "CMD"], rows)


def _status(card: CardReading) -> dict[str, object]:
    used, total = card.memory_used_bytes, card.model.memory_bytes
    return {
        "arch": card.model.family.value,
        "device": card.name,
        "liveness": "alive" if card.alive else "dead",
        "memory": {"DRAM": {"used_size": used, "total_size": total, "used_ratio": round(used / total, 6)}},
        "pe_utilizations": [
            {
                "pe_core": index,
                "pe_occupancy": core.held,
                "pe_utilization": round(100 * core.utilization, 2) if core.held else 0.0,
            }
            for index, core in enumerate(card.cores)
        ],
    }


def _celsius(card: CardReading) -> str:
    return f"{card.peak_celsius:.2f}°C"


def _range(cores: tuple[int, ...]) -> str:
    return str(cores[0]) if len(cores) == 1 else f"[{cores[0]}, {cores[-1]}]"


def _listed(cells: Iterable[str]) -> Sequence[str]:
    """One a line, with a comma after all but the last."""
    *first, last = cells
    return [*(f"{cell}," for cell in first), last]


def _document(objects: Sequence[object]) -> str:
    return json.dumps(objects, ensure_ascii=False, separators=(",", ":")) + "\n"


# --- ctl ------------------------------------------------------------
# furiosactl in its versions: device files in 0.5, cores in 0.9, JSON in 0.10. It knows Warboy only.


CTL_NAME = "furiosactl"


def ctl_tool(spec: FuriosaSpec) -> Tool:
    return Tool(name=CTL_NAME, cost=spec.tool, errors=ERRORS)


class Ctl:
    def __init__(self, spec: FuriosaSpec) -> None:
        self._spec = spec
        self._version = spec.furiosactl

    def answers(self, cards: Sequence[CardReading]) -> Iterator[ToolAnswer]:
        if self._version is CtlVersion.V0_10:
            yield ToolAnswer(
                patterns=("info --format json",), text=_document_ctl([self._info(c) for c in cards])
            )
            yield ToolAnswer(patterns=("list --format json",), text=_document_ctl(list(map(_cores, cards))))
            yield ToolAnswer(patterns=("ps --format json",), text=_document_ctl(list(_processes(cards))))
        if self._version is not CtlVersion.V0_5:
            yield ToolAnswer(patterns=("info --full",), text=self._info_table(cards, full=True))
        yield ToolAnswer(patterns=("info",), text=self._info_table(cards, full=False))
        yield ToolAnswer(patterns=("list",), text=self._list_table(cards))
        rows = [[str(p["npu"]), str(p["pid"]), str(p["cmd"])] for p in _processes(cards)]
        yield ToolAnswer(patterns=("ps",), text=table(["NPU", "PID", "CMD"], rows))
        yield UNKNOWN

    def _info(self, card: CardReading) -> dict[str, str]:
        # Before 0.10 the power shown was that of the cores.
        of_cores = self._version is not CtlVersion.V0_10
        power = card.watts * card.model.core_power_share if of_cores else card.watts
        return {
            "dev_name": card.name,
            "product_name": "FuriosaAI Warboy" if self._version is CtlVersion.V0_5 else "warboy",
            "device_uuid": card.uuid,
            "device_sn": card.serial,
            "firmware": self._spec.warboy.firmware,
            "temperature": f"{card.peak_celsius:.0f}°C",
            "power": watts(power),
            "pci_bdf": card.address,
            "pci_dev": f"{511 - card.slot}:0",
        }

    def _info_table(self, cards: Sequence[CardReading], *, full: bool) -> str:
        columns = {"NPU": "dev_name", "Name": "product_name"}
        columns |= {"UUID": "device_uuid", "S/N": "device_sn"} if full else {}
        columns |= {} if self._version is CtlVersion.V0_5 else {"Firmware": "firmware"}
        columns |= {"Temp.": "temperature", "Power": "power", "PCI-BDF": "pci_bdf"}
        columns |= {"PCI-DEV": "pci_dev"} if full or self._version is CtlVersion.V0_5 else {}
        told = [self._info(card) for card in cards]
        return table(list(columns), [[card[key] for key in columns.values()] for card in told])

    def _list_table(self, cards: Sequence[CardReading]) -> str:
        if self._version is CtlVersion.V0_5:
            rows = [[name, file, kind, status] for card in cards for name, file, kind, status in _files(card)]
            return table(["NPU", "DEVNAME", "Type", "Status"], rows, rules_between=False)
        rows = []
        for card in cards:
            cores = ", ".join(
                f"{index} ({'occupied' if core.held else 'available'})"
                for index, core in enumerate(card.cores)
            )
            rows.append([card.name, cores, ", ".join(file for _, file, _, _ in _files(card))])
        return table(["NPU", "Cores", "DEVFILES"], rows)


def _files(card: CardReading) -> Iterator[tuple[str, str, str, str]]:
    """Device files with the card's name at the first of them, their kind and whether they can be opened."""
    held = [core.held for core in card.cores]
    yield card.name, card.name, "All PE(s)", _status_ctl(any(held))
    for index, taken in enumerate(held):
        yield "", f"{card.name}pe{index}", "Single PE", _status_ctl(taken)
    yield "", f"{card.name}pe0-{len(held) - 1}", "PE Fusion", _status_ctl(any(held))


def _status_ctl(taken: bool) -> str:
    return "Occupied" if taken else "Ready"


def _cores(card: CardReading) -> dict[str, object]:
    return {
        "npu": card.name,
        "cores": [
            {"idx": index, "status": "occupied" if core.held else "available"}
            for index, core in enumerate(card.cores)
        ],
        "devfiles": [file for _, file, _, _ in _files(card)],
    }


def _processes(cards: Sequence[CardReading]) -> Iterator[dict[str, object]]:
    for card in cards:
        for process in card.processes:
            first, last = process.cores[0], process.cores[-1]
            file = f"{card.name}pe{first}" if first == last else f"{card.name}pe{first}-{last}"
            yield {"npu": file, "pid": process.pid, "cmd": command(process.name)}


def _document_ctl(objects: Sequence[object]) -> str:
    return json.dumps(objects, ensure_ascii=False) + "\n"
