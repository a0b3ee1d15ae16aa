"""Ascend chips in device plugins. A container gets the device files of its chips and of the driver, the
driver's folder, and the variable in which Ascend's runtimes expect the numbers of the chips."""

import re
from collections.abc import Sequence
from pathlib import Path

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.deviceplugin.vendor import (
    AllocatedDevice,
    ContainerEdits,
    DeviceNode,
    DeviceUnavailable,
    Mount,
    Roots,
    Unit,
    comma_separated,
)
from accelscope.model import Device, Vendor
from accelscope.vendors.ascend import DRIVER_ROOT

_DRIVER_FILES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_INSTALLED_PATHS = ("/usr/local/dcmi", "/usr/local/sbin/npu-smi")  # outside the driver's folder
_DOMAIN = "huawei.com"


class AscendPart:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        """Depends on the generation of the first chip."""
        kinds = [kind for kind in map(_kind, devices) if kind is not None]
        return f"{_DOMAIN}/{kinds[0] if kinds else 'Ascend910'}"

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:  # noqa: ARG002
        """A resource of one generation excludes chips of other generations. Any other resource name serves
        all chips."""
        domain, _, name = resource.partition("/")
        known = domain == _DOMAIN and (name.startswith("Ascend") or name == "npu")
        return not known or _kind(device) in (None, name)

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:  # noqa: ARG002
        number = _number(device)
        if number is None or self._missing(_files([number])) is not None:
            return ()
        return (Unit(f"{_kind(device) or 'Ascend910'}-{number}"),)

    def cdi_name(self, device: Device) -> str | None:  # noqa: ARG002
        return None

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:  # noqa: ARG002 - refused with the settings
        numbers = (_number(each.device) for each in allocated)
        chips = sorted({number for number in numbers if number is not None})
        names = _files(chips)
        missing = self._missing(names)
        if missing is not None:
            raise DeviceUnavailable(
                f"{self._roots.dev}/{missing} does not exist: Ascend's driver is not loaded"
            )
        paths = [DRIVER_ROOT.of(self._roots.settings), *_INSTALLED_PATHS]
        return ContainerEdits(
            nodes=tuple(
                DeviceNode(f"{self._roots.container_dev}/{name}", f"{self._roots.host_dev}/{name}")
                for name in names
            ),
            mounts=tuple(Mount(path, path) for path in paths if Path(path).exists()),
            environment={"ASCEND_VISIBLE_DEVICES": comma_separated(map(str, chips))},
        )

    def _missing(self, names: Sequence[str]) -> str | None:
        return next((name for name in names if not (self._roots.dev / name).exists()), None)


def open_part(roots: Roots) -> AscendPart:
    return AscendPart(roots)


def _files(chips: Sequence[int]) -> list[str]:
    return [*(f"davinci{chip}" for chip in chips), *_DRIVER_FILES]


def _number(device: Device) -> int | None:
    """The number of the chip's device file. If npu-smi prints only the runtime's number, the two are
    equal."""
    return device.index if device.physical_id is None else device.physical_id


def _kind(device: Device) -> str | None:
    """The generation in the words of Ascend's own plugin: Ascend910 for a 910B3."""
    model = (device.model or "").removeprefix("Ascend").lstrip()
    if model.startswith("950"):
        return "npu"
    for generation in ("310P", "310B", "310", "910"):
        if model.upper().startswith(generation):
            return f"Ascend{generation}"
    return None


# --- device ids -----------------------------------------------------------


# Ascend910-3; for a part of a chip (vNPU): template, number of the part, chip.
_CHIP = re.compile(r"Ascend[0-9A-Za-z]+-(?:[0-9]+c[0-9a-z.]*-[0-9]+-)?([0-9]{1,5})", re.ASCII)
_NPU = re.compile(r"npu-([0-9]{1,5})", re.ASCII)  # the 950's, under huawei.com/npu


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    chip = _CHIP.fullmatch(bare) or (None if resource is None else _NPU.fullmatch(bare))
    return UNRESOLVED if chip is None else whole(devices.by_chip(int(chip[1]), Vendor("ascend")))
