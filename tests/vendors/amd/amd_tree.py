"""Folders with the files of the amdgpu driver, written by the tests, and the reader on them."""

from collections.abc import Mapping
from pathlib import Path

from accelscope.model import AbsenceReason, Device
from accelscope.vendors.amd.reader import AmdReader
from accelscope.vendors.common.contract import Paths, ReaderOptions

SENSORS = {
    "hwmon/hwmon7/temp1_label": "edge",
    "hwmon/hwmon7/temp1_input": "41000",
    "hwmon/hwmon7/temp1_crit": "100000",
    "hwmon/hwmon7/temp1_emergency": "105000",
    "hwmon/hwmon7/temp2_label": "junction",
    "hwmon/hwmon7/temp2_input": "52000",
    "hwmon/hwmon7/temp3_label": "mem",
    "hwmon/hwmon7/temp3_input": "48000",
    "hwmon/hwmon7/power1_average": "61000000",
}
HEALTHY = {"gpu_busy_percent": "12", "mem_info_vram_total": "1000", "mem_info_vram_used": "400", **SENSORS}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def reader_of(root: Path, clock: Clock | None = None) -> AmdReader:
    paths = Paths(
        proc=root / "proc",
        sys=root / "sys",
        dev=root / "dev",
    )
    tools = dict.fromkeys(("amd_smi_path", "rocm_smi_path"), str(root / "no-tool"))
    clock = clock or Clock()
    return AmdReader(ReaderOptions(paths, tools, clock=clock, monotonic=clock))


def only_device(root: Path) -> Device:
    reader = reader_of(root)
    [key] = reader.survey().keys
    return reader.read(key).device


def reasons(device: Device) -> Mapping[str, AbsenceReason]:
    return {absence.field: absence.reason for absence in device.absent}


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def lay_out_gpu(
    root: Path,
    files: Mapping[str, str],
    *,
    card: int = 0,
    pci: str = "0000:09:00.0",
    vendor: str = "0x1002",
    driver: str | None = "amdgpu",
) -> Path:
    """Write a card with these files of its device. Returns the folder of the device."""
    device = root / "sys/class/drm" / f"card{card}" / "device"
    bound = f"DRIVER={driver}\n" if driver else ""
    identity = {"vendor": vendor, "device": "0x744c", "uevent": f"{bound}PCI_SLOT_NAME={pci}"}
    write(device, {**identity, **files})
    if driver is not None:
        (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    (root / "sys/module/amdgpu").mkdir(parents=True, exist_ok=True)
    return device
