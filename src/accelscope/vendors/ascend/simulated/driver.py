"""The simulated Ascend driver of a node: its files, and the output of npu-smi."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.folder import Content, Link
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.vendor import InstalledPart, SimulatedHost, SimulatedVendor, SimulationTime
from accelscope.vendors.ascend.simulated import npu_smi
from accelscope.vendors.ascend.simulated.chip import Chip, ChipDynamics, ChipReading, chips_of
from accelscope.vendors.ascend.simulated.npu_smi import ERRORS
from accelscope.vendors.ascend.simulated.spec import AscendSpec, Layout, read_section

ROOT = "opt/Ascend/driver"

_MODULES = ("drv_davinci_intf_host", "drv_devmng_host", "drv_pcie_host")
_DEVICE_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")


class AscendDriver:
    def __init__(self, spec: AscendSpec, site: SimulatedHost) -> None:
        self._spec = spec
        self._chips = tuple(ChipDynamics(chip, site.placements) for chip in chips_of(spec, site))
        self._tool = npu_smi.tool(spec)

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return (self._tool.installed,)

    def readings(self, instant: SimulationTime) -> tuple[ChipReading, ...]:
        result: list[ChipReading] = []
        listed = 0
        for chip in self._chips:
            own = instant.faults.of_device(chip.chip.slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in own)
            result.append(chip.reading(instant.at, own, None if vanished else listed))
            listed += not vanished
        return _with_shared_power(result)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """The id has the logic id, which is the position of the chip unless a chip has vanished."""
        chip = self._chips[device].chip
        kind = _plugin_name(chip.model.name)
        return PluginDevice(f"huawei.com/{kind}", plugin_device_name(chip), chip.numa_node)

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        readings = self.readings(instant)
        kinds = {fault.kind for fault in instant.active}
        loaded = FaultKind.DRIVER_NOT_LOADED not in kinds
        yield from _pci_files(readings)
        if loaded:
            yield from _kernel_files(readings)
        yield f"{ROOT}/version.info", f"Version={self._spec.driver_version}\nascendhal_version=7.35.23\n"
        if FaultKind.LIBRARY_MISSING not in kinds:
            yield f"{ROOT}/lib64/driver/{npu_smi.LIBRARY}", ""
            yield f"{ROOT}/lib64/common/libc_sec.so", ""
        answers = npu_smi.answers(self._spec, readings) if loaded else (npu_smi.NO_ACCESS,)
        yield self._tool.state_file(answers, instant.active)


def plugin_device_name(chip: Chip) -> str:
    return f"{_plugin_name(chip.model.name)}-{chip.slot}"


def _plugin_name(model: str) -> str:
    """The name of the generation, such as Ascend910 for a 910B3."""
    generation = model.removeprefix("Ascend")
    if generation.startswith("950"):
        return "npu"
    for known in ("310P", "310B"):
        if generation.startswith(known):
            return f"Ascend{known}"
    return f"Ascend{generation[:3]}"


def _with_shared_power(readings: Sequence[ChipReading]) -> tuple[ChipReading, ...]:
    """Chips with one power meter report their total power."""
    totals: dict[int, float] = {}
    for reading in readings:
        totals[reading.chip.board] = totals.get(reading.chip.board, 0.0) + reading.watts
    return tuple(
        replace(reading, watts=round(totals[reading.chip.board], 1))
        if reading.chip.model.layout is Layout.TWO_CHIPS
        else reading
        for reading in readings
    )


def _kernel_files(readings: Sequence[ChipReading]) -> Iterator[tuple[str, Content]]:
    for module in _MODULES:
        yield f"sys/module/{module}/refcnt", "1\n"
    for name in _DEVICE_FILES:
        yield f"dev/{name}", ""
    for reading in readings:
        if reading.listed:
            yield f"dev/davinci{reading.chip.slot}", ""


def _pci_files(readings: Sequence[ChipReading]) -> Iterator[tuple[str, Content]]:
    for reading in readings:
        chip = reading.chip
        if not reading.listed or not chip.model.on_pci:
            continue
        folder = f"sys/bus/pci/devices/{chip.address}"
        yield f"{folder}/vendor", "0x19e5\n"
        yield f"{folder}/device", f"0x{chip.model.pci_device_code:04x}\n"
        yield f"{folder}/class", "0x120000\n"
        yield f"{folder}/numa_node", f"{chip.numa_node}\n"
        yield f"{folder}/current_link_speed", "16.0 GT/s PCIe\n"
        yield f"{folder}/max_link_speed", "16.0 GT/s PCIe\n"
        yield f"{folder}/current_link_width", "16\n"
        yield f"{folder}/max_link_width", "16\n"
        yield f"{folder}/driver", Link("../../../../bus/pci/drivers/devdrv_device_driver")


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AscendDriver,
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
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(ERRORS),
        tools=("npu-smi",),
    ),
    settings={"npu_smi_path": "bin/npu-smi", "ascend_driver_root": "opt/Ascend/driver"},
    node_labels={"accelerator/huawei-npu": "true"},
)
