"""The simulated Furiosa driver of a node: its tools, and all files that show what it does."""

from collections.abc import Hashable, Iterator

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.vendor import InstalledPart, SimulatedHost, SimulatedVendor, SimulationTime
from accelscope.vendors.furiosa.simulated import kernel, tools
from accelscope.vendors.furiosa.simulated.card import CardDynamics, CardReading
from accelscope.vendors.furiosa.simulated.spec import (
    CtlVersion,
    Family,
    FuriosaSpec,
    SmiVersion,
    read_cores,
    read_section,
)
from accelscope.vendors.furiosa.simulated.tools import ERRORS

_RESOURCES = {Family.WARBOY: "beta.furiosa.ai/npu", Family.RNGD: "furiosa.ai/rngd"}
_GIGABYTES_PER_CORE = 6  # of an RNGD that is cut


class FuriosaDriver:
    def __init__(self, spec: FuriosaSpec, site: SimulatedHost) -> None:
        self._spec = spec
        self._cards = tuple(CardDynamics(spec, site, slot) for slot in range(len(spec.devices)))
        self._smi = None if spec.furiosa_smi is SmiVersion.NONE else (tools.smi_tool(spec), tools.Smi(spec))
        self._ctl = None if spec.furiosactl is CtlVersion.NONE else (tools.ctl_tool(spec), tools.Ctl(spec))

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return tuple(tool[0].installed for tool in (self._smi, self._ctl) if tool is not None)

    def readings(self, instant: SimulationTime) -> tuple[CardReading, ...]:
        """Each family counts its cards by itself; those after one that vanished move up."""
        result: list[CardReading] = []
        next_index = dict.fromkeys(Family, 0)
        for slot, card in enumerate(self._cards):
            own = instant.faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in own)
            index = None if vanished else next_index[card.family]
            next_index[card.family] += not vanished
            result.append(card.reading(instant.at, own, index))
        return tuple(result)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """A card, or the partition of it that a workload with cores of its own runs on."""
        card = self._cards[device]
        resource = _RESOURCES[card.family]
        cores = own if isinstance(own, tuple) else ()
        if not cores or len(cores) == card.cores:
            return PluginDevice(resource, card.uuid, card.numa_node)
        if card.family is Family.RNGD:
            resource = f"{resource}-{len(cores)}core.{_GIGABYTES_PER_CORE * len(cores)}gb"
        span = f"{cores[0]}" if len(cores) == 1 else f"{cores[0]}-{cores[-1]}"
        return PluginDevice(resource, f"{card.uuid}_cores_{span}", card.numa_node)

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        cards = self.readings(instant)
        kinds = {fault.kind for fault in instant.active}
        loaded = FaultKind.DRIVER_NOT_LOADED not in kinds
        yield from kernel.pci_files(cards, loaded=loaded and self._spec.sysfs)
        if loaded:
            if self._spec.sysfs:
                yield from kernel.class_files(self._spec, cards)
            yield from kernel.device_files(cards)
        rngd = [card for card in cards if card.model.family is Family.RNGD and card.listed]
        warboys = [card for card in cards if card.model.family is Family.WARBOY and card.listed]
        if self._smi is not None:
            tool, printer = self._smi
            said = (*tools.instead(tools.SMI_NAME, kinds, rngd), *printer.answers(rngd))
            yield tool.state_file(said, instant.active)
        if self._ctl is not None:
            tool, teller = self._ctl
            said = (*tools.instead(tools.CTL_NAME, kinds, warboys), *teller.answers(warboys))
            yield tool.state_file(said, instant.active)


# --- vendor ------------------------------------------------------------
# The simulated driver of Furiosa, as the vendor's declaration names it.


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=FuriosaDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.RESET_REQUIRED,
                FaultKind.HOT,
                FaultKind.ECC_STORM,
                FaultKind.LIBRARY_MISSING,
                FaultKind.DRIVER_NOT_LOADED,
                FaultKind.VERSION_MISMATCH,
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(ERRORS),
        tools=(tools.SMI_NAME, tools.CTL_NAME),
    ),
    read_process=read_cores,
    settings={"furiosa_smi_path": "bin/furiosa-smi", "furiosactl_path": "bin/furiosactl"},
    node_labels={"feature.node.kubernetes.io/pci-1ed2.present": "true"},
)
