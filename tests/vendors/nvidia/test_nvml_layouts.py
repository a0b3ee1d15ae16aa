"""The structures of the simulated library have the layouts that the official binding declares."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pynvml
import pytest

from accelscope.vendors.nvidia.simulated.driver import LIBRARY

# C type -> class of the binding, and its version word (None: no version)
STRUCTURES: dict[str, tuple[Any, int | None]] = {
    "nvmlPciInfo_t": (pynvml.nvmlPciInfo_t, None),
    "nvmlPciInfo_v2_t": (pynvml.nvmlPciInfo_v2_t, None),
    "nvmlPciInfoExt_v1_t": (pynvml.nvmlPciInfoExt_v1_t, pynvml.nvmlPciInfoExt_v1),
    "nvmlMemory_t": (pynvml.c_nvmlMemory_t, None),
    "nvmlMemory_v2_t": (pynvml.c_nvmlMemory_v2_t, pynvml.nvmlMemory_v2),
    "nvmlBAR1Memory_t": (pynvml.c_nvmlBAR1Memory_t, None),
    "nvmlUtilization_t": (pynvml.c_nvmlUtilization_t, None),
    "nvmlProcessInfo_v2_t": (pynvml.c_nvmlProcessInfo_v2_t, None),
    "nvmlProcessDetail_v1_t": (pynvml.c_nvmlProcessDetail_v1_t, None),
    "nvmlProcessDetailList_v1_t": (pynvml.c_nvmlProcessDetailList_v1_t, pynvml.nvmlProcessDetailList_v1),
    "nvmlProcessUtilizationSample_t": (pynvml.c_nvmlProcessUtilizationSample_t, None),
    "nvmlProcessUtilizationInfo_v1_t": (pynvml.c_nvmlProcessUtilizationInfo_v1_t, None),
    "nvmlProcessesUtilizationInfo_v1_t": (
        pynvml.c_nvmlProcessesUtilizationInfo_v1_t,
        pynvml.ProcessesUtilizationInfo_v1,
    ),
    "nvmlEccErrorCounts_t": (pynvml.c_nvmlEccErrorCounts_t, None),
    "nvmlEccSramErrorStatus_v1_t": (pynvml.c_nvmlEccSramErrorStatus_v1_t, pynvml.nvmlEccSramErrorStatus_v1),
    "nvmlRowRemapperHistogramValues_t": (pynvml.c_nvmlRowRemapperHistogramValues, None),
    "nvmlValue_t": (pynvml.c_nvmlValue_t, None),
    "nvmlFieldValue_t": (pynvml.c_nvmlFieldValue_t, None),
    "nvmlViolationTime_t": (pynvml.c_nvmlViolationTime_t, None),
    "nvmlTemperature_v1_t": (pynvml.c_nvmlTemperature_v1_t, pynvml.nvmlTemperature_v1),
    "nvmlMarginTemperature_v1_t": (pynvml.c_nvmlMarginTemperature_v1_t, pynvml.nvmlMarginTemperature_v1),
    "nvmlGpuThermalSensor_t": (pynvml.c_nvmlGpuThermalSensor_t, None),
    "nvmlGpuThermalSettings_t": (pynvml.c_nvmlGpuThermalSettings_t, None),
    "nvmlFanSpeedInfo_t": (pynvml.c_nvmlFanSpeedInfo_t, pynvml.nvmlFanSpeedInfo_v1),
    "nvmlGpuDynamicPstatesUtilization_t": (pynvml.c_nvmlGpuDynamicPstatesUtilization_t, None),
    "nvmlGpuDynamicPstatesInfo_t": (pynvml.c_nvmlGpuDynamicPstatesInfo_t, None),
    "nvmlDeviceAttributes_t": (pynvml.c_nvmlDeviceAttributes, None),
    "nvmlEventData_t": (pynvml.c_nvmlEventData_t, None),
    "nvmlUUID_t": (pynvml.c_nvmlUUID_t, None),
    "nvmlGpmSupport_t": (pynvml.c_nvmlGpmSupport_t, None),
    "nvmlGpmMetric_t": (pynvml.c_nvmlGpmMetric_t, None),
    "nvmlGpmMetricsGet_t": (pynvml.c_nvmlGpmMetricsGet_t, None),
    "nvmlGpuFabricInfo_t": (pynvml.c_nvmlGpuFabricInfo_t, None),
    "nvmlGpuFabricInfo_v2_t": (pynvml.c_nvmlGpuFabricInfo_v2_t, pynvml.nvmlGpuFabricInfo_v2),
    "nvmlGpuFabricInfo_v3_t": (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.nvmlGpuFabricInfo_v3),
}
OPEN_ENDED = {"nvmlGpmMetricsGet_t"}  # the length of its array depends on NVML's version
BIT_FIELDS = {"bIsPresent"}


def fields_of(structure: Any) -> list[str]:
    return [field[0] for field in structure._fields_ if field[0] not in BIT_FIELDS]


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> dict[str, int]:
    """sizeof and offsetof of the C compiler."""
    lines = []
    for name, (structure, _) in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in fields_of(structure):
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    folder = tmp_path_factory.mktemp("layouts")
    source = folder / "layouts.c"
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "nvml_types.h"\n'
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    )
    program = folder / "layouts"
    subprocess.run(["cc", "-I", str(LIBRARY.folder), "-o", str(program), str(source)], check=True, timeout=60)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_has_the_real_layout(layouts: dict[str, int], name: str) -> None:
    structure, version = STRUCTURES[name]
    assert {field: layouts[f"{name}.{field}"] for field in fields_of(structure)} == {
        field: getattr(structure, field).offset for field in fields_of(structure)
    }
    if name not in OPEN_ENDED:
        assert layouts[name] == ctypes.sizeof(structure)
    if version is not None:
        assert version & 0xFFFFFF == layouts[name]
