"""acme-smi and device files of a simulated node, as functions of seed and time."""

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from accelscope.config.document import Section
from accelscope.config.values import WholeNumber
from accelscope.simulate import spec as identity
from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.spec import MemoryPool, VendorSpec, read_devices
from accelscope.simulate.vendor import (
    InstalledPart,
    SimulatedHost,
    SimulatedVendor,
    SimulationTime,
    Tool,
    ToolAnswer,
)
from accelscope.simulate.workload import DeviceLoad, PowerDraw

_IDLE_WATTS, _SPAN_WATTS = 20.0, 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeSpec(VendorSpec):
    memory_mib: tuple[int, ...]  # of each card

    @property
    def device_count(self) -> int:
        return len(self.memory_mib)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        return MemoryPool(device, self.memory_mib[device] << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeReading:
    uuid: str
    address: str
    watts: float
    celsius: float
    used_mib: dict[int, int]  # by pid


class AcmeDriver:
    def __init__(self, spec: AcmeSpec, site: SimulatedHost) -> None:
        self._spec, self._site = spec, site
        self._tool = Tool(name="acme-smi", errors={"no_driver": ToolAnswer(text="error: no driver\n")})

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return (self._tool.installed,)

    def readings(self, instant: SimulationTime) -> tuple[AcmeReading, ...]:
        return tuple(self._reading(slot, instant.at) for slot in range(self._spec.device_count))

    def _reading(self, slot: int, at: float) -> AcmeReading:
        own = [place for place in self._site.placements if place.device == slot]
        draw = PowerDraw(_IDLE_WATTS, _SPAN_WATTS, DeviceLoad((place, 1.0) for place in own))
        return AcmeReading(
            uuid=self._uuid(slot),
            address=self._site.pci_address(slot, self._spec.device_count),
            watts=draw.mean(at),
            celsius=draw.celsius(at, ambient=25.0, at_full_power=80.0),
            used_mib={place.process.pid: place.process.spec.memory_bytes >> 20 for place in own},
        )

    def _uuid(self, slot: int) -> str:
        return f"ACME-{identity.uuid(self._site.seed, 'acme', slot)}"

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        cards = self.readings(instant)
        rows = [self._row(slot, card) for slot, card in enumerate(cards)]
        head = "# driver 4.5.6\n"
        hung = {fault.device for fault in instant.active if fault.kind is FaultKind.HANG}
        answers = [ToolAnswer(patterns=("query",), text=head + "".join(rows))]
        answers += (
            ToolAnswer(patterns=(f"query -i {slot}",), text=head + row, hangs=slot in hung)
            for slot, row in enumerate(rows)
        )
        answers.append(ToolAnswer(patterns=("ps",), text=self._process_list()))
        yield self._tool.state_file(answers, instant.active)
        for slot, card in enumerate(cards):
            yield f"dev/acme{slot}", ""
            yield f"sys/bus/pci/devices/{card.address}/vendor", "0x1acc\n"

    def _row(self, slot: int, card: AcmeReading) -> str:
        processes = " ".join(f"{pid}:{mib}" for pid, mib in card.used_mib.items())
        memory = f"{sum(card.used_mib.values())},{self._spec.memory_mib[slot]}"
        values = f"{card.celsius:.0f},{card.watts:.1f},{memory},ok,{processes}"
        return f"{slot},{card.uuid},Acme A1,{card.address},{values}\n"

    def _process_list(self) -> str:
        return json.dumps(
            [
                {"pid": place.process.pid, "name": f"/home/bob/{place.process.spec.name} --token s3cret"}
                for place in self._site.placements
            ]
        )

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:
        return PluginDevice("acme.com/npu", f"card-{device}", -1)


def read_section(section: Section) -> AcmeSpec:
    cards = read_devices(section, lambda entry: entry.take("memory_mib", WholeNumber(1, 1 << 20), 16384))
    return AcmeSpec(memory_mib=cards)


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AcmeDriver,
    faults=PossibleFaults(kinds=TOOL_FAULTS | {FaultKind.HANG}, errors=("no_driver",), tools=("acme-smi",)),
    settings={"acme_smi_path": "bin/acme-smi"},
    node_labels={"acme.com/npu.present": "true"},
)
