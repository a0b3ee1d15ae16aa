"""furiosactl in its versions: device files in 0.5, cores in 0.9, JSON in 0.10. It knows Warboy only."""

import json
from collections.abc import Iterator, Sequence

from accelscope.simulate.tool import Answer, Tool
from accelscope.vendors.furiosa.simulated import answers
from accelscope.vendors.furiosa.simulated.drawing import table
from accelscope.vendors.furiosa.simulated.readings import CardReading
from accelscope.vendors.furiosa.simulated.spec import CtlVersion, FuriosaSpec

CTL_NAME = "furiosactl"


def ctl_tool(spec: FuriosaSpec) -> Tool:
    return Tool(name=CTL_NAME, cost=spec.tool, errors=answers.ERRORS)


class Ctl:
    def __init__(self, spec: FuriosaSpec) -> None:
        self._spec = spec
        self._version = spec.furiosactl

    def answers(self, cards: Sequence[CardReading]) -> Iterator[Answer]:
        if self._version is CtlVersion.V0_10:
            yield Answer(patterns=("info --format json",), text=_document([self._info(c) for c in cards]))
            yield Answer(patterns=("list --format json",), text=_document(list(map(_cores, cards))))
            yield Answer(patterns=("ps --format json",), text=_document(list(_processes(cards))))
        if self._version is not CtlVersion.V0_5:
            yield Answer(patterns=("info --full",), text=self._info_table(cards, full=True))
        yield Answer(patterns=("info",), text=self._info_table(cards, full=False))
        yield Answer(patterns=("list",), text=self._list_table(cards))
        rows = [[str(p["npu"]), str(p["pid"]), str(p["cmd"])] for p in _processes(cards)]
        yield Answer(patterns=("ps",), text=table(["NPU", "PID", "CMD"], rows))
        yield answers.UNKNOWN

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
            "power": answers.watts(power),
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
    yield card.name, card.name, "All PE(s)", _status(any(held))
    for index, taken in enumerate(held):
        yield "", f"{card.name}pe{index}", "Single PE", _status(taken)
    yield "", f"{card.name}pe0-{len(held) - 1}", "PE Fusion", _status(any(held))


def _status(taken: bool) -> str:
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
            yield {"npu": file, "pid": process.pid, "cmd": answers.command(process.name)}


def _document(objects: Sequence[object]) -> str:
    return json.dumps(objects, ensure_ascii=False) + "\n"
