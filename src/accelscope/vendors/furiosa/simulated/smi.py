"""furiosa-smi in its versions: tables up to 2025, JSON and memory from 2026 on."""

import json
from collections.abc import Iterable, Iterator, Sequence

from accelscope.simulate.tool import Answer, Tool
from accelscope.vendors.furiosa.simulated import answers
from accelscope.vendors.furiosa.simulated.drawing import Cell, table
from accelscope.vendors.furiosa.simulated.readings import CardReading, CoreReading
from accelscope.vendors.furiosa.simulated.spec import FuriosaSpec, SmiVersion

SMI_NAME = "furiosa-smi"
_GIB = 1 << 30


def smi_tool(spec: FuriosaSpec) -> Tool:
    return Tool(name=SMI_NAME, cost=spec.tool, errors=answers.ERRORS)


class Smi:
    def __init__(self, spec: FuriosaSpec) -> None:
        self._spec = spec
        self._version = spec.furiosa_smi

    @property
    def _modern(self) -> bool:
        return self._version is SmiVersion.V2026_1

    def answers(self, cards: Sequence[CardReading]) -> Iterator[Answer]:
        if self._modern:
            yield Answer(patterns=("info --format json",), text=_document([self._info(c) for c in cards]))
            yield Answer(patterns=("status --format json",), text=_document(list(map(_status, cards))))
        yield Answer(patterns=("info",), text=self._info_table(cards, full=False))
        yield Answer(patterns=("info --format full", "info --full"), text=self._info_table(cards, full=True))
        yield Answer(patterns=("status",), text=self._status_table(cards))
        yield Answer(patterns=("ps",), text=self._ps_table(cards))
        yield Answer(
            patterns=("version",),
            text=f"- furiosa-smi:     {self._version}.0\n- device driver:   {self._spec.rngd.driver}\n",
        )
        yield answers.UNKNOWN

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
            "power": answers.watts(card.watts),
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
                [f"{card.name}pe{p.cores[0]}-{p.cores[-1]}", str(p.pid), answers.command(p.name)]
                for p, card in held
            ]
            return table(["NPU", "PID", "CMD"], rows)
        pids = dict.fromkeys(process.pid for process, _ in held)
        rows = []
        for pid in pids:
            own = [(process, card) for process, card in held if process.pid == pid]
            where = ", ".join(f"{card.name}:{_range(process.cores)}" for process, card in own)
            rows.append([str(pid), where, answers.command(own[0][0].name)])
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
