"""Label values beside those that the exporters themselves publish: in their documentation, code and pages.

A dashboard selects by values as much as by names: a bus address in lower case or a sensor in capitals finds
nothing. (The dialect `amd` has its own tests.)
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.metrics.dialect_nodes import (
    ASCEND_910B,
    CUT_H100,
    GIB,
    H100,
    RNGD,
    node,
    on,
)

from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition
from accelscope.model import ErrorCount, Sensor, Snapshot

Labels = dict[str, str]


def series(page: str, name: str) -> list[Labels]:
    lines = re.findall(rf"^{name}\{{(.*)\}} \S+(?: \d+)?$", page, re.MULTILINE)
    return [dict(re.findall(r'(\w+)="([^"]*)"', labels)) for labels in lines]


def shown(snapshot: Snapshot, dialect: str, name: str) -> list[Labels]:
    exposition = Exposition(families=(), dialects=dialects.load((dialect,)))
    return series(exposition.render(snapshot).text.decode(), name)


def published(sample: str) -> Labels:
    [labels] = series(sample, r"\w+")
    return labels


# dcgm-exporter


def test_dcgm_whole_gpu() -> None:
    sample = published(
        'DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-41cc2907-3249-5a6b-f0e4-d04063b183a9",'
        'pci_bus_id="00000000:00:1C.0",device="nvidia1",modelName="Tesla T4",'
        'Hostname="ip-172-31-16-106",DCGM_FI_DRIVER_VERSION="535.183.06"} 1365'
    )
    device = replace(
        H100,
        index=1,
        uuid="GPU-41cc2907-3249-5a6b-f0e4-d04063b183a9",
        pci_address="0000:00:1c.0",
        device_name="nvidia1",
        model="Tesla T4",
        driver_version="535.183.06",
    )
    snapshot = node(device, node="ip-172-31-16-106")
    assert shown(snapshot, "dcgm", "DCGM_FI_DEV_SM_CLOCK") == [sample]


def test_dcgm_gpu_of_a_pod_with_an_xid() -> None:
    sample = published(
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c",'
        'pci_bus_id="00000000:00:02.0",device="nvidia0",modelName="NVIDIA RTX 4000 Ada Generation",'
        'Hostname="lke529760-766837-0a634ab30000",DCGM_FI_DRIVER_VERSION="580.95.05",container="cuda",'
        'err_code="31",err_msg="",namespace="default",pod="cuda-75454ffb9f-8ljq7"} 31'
    )
    device = replace(
        H100,
        uuid="GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c",
        pci_address="0000:00:02.0",
        model="NVIDIA RTX 4000 Ada Generation",
        driver_version="580.95.05",
        errors=(ErrorCount("xid", "31", 1, 1.0),),
    )
    usage = on(device, "cuda-75454ffb9f-8ljq7", "cuda", namespace="default", allocated=1)
    [found] = shown(
        node(device, node="lke529760-766837-0a634ab30000", pod_usages=(usage,)),
        "dcgm",
        "DCGM_FI_DEV_XID_ERRORS",
    )
    assert found.pop("err_msg")  # a text for people: ours are our own words
    sample.pop("err_msg")
    assert found == sample


def test_dcgm_mig_instance() -> None:
    sample = {"GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": "1", "modelName": "NVIDIA H100 80GB HBM3"}
    found = shown(node(CUT_H100), "dcgm", "DCGM_FI_DEV_FB_USED")[0]
    assert sample.items() <= found.items()
    assert found["UUID"] == CUT_H100.uuid, "of the GPU, not of the instance"


# npu-exporter: the sample of its documentation

NPU_SAMPLE = published(
    'npu_chip_info_aicore_current_freq{container_name="",id="1",model_name="910A-Ascend-V1",namespace="",'
    'pcie_bus_info="0000:DB:00.0",pod_name="",vdie_id="185011D4-21E04718-93B2ED94-14CC040A-BF102003"} '
    "1000 1723621883932"
)
CHIP_910A = replace(
    ASCEND_910B,
    index=1,
    physical_id=1,
    model="910A",
    uuid="185011D4 21E04718 93B2ED94 14CC040A BF102003",
    pci_address="0000:db:00.0",
)


def test_npu_exporter_free_chip() -> None:
    [found] = shown(node(CHIP_910A), "npu-exporter", "npu_chip_info_aicore_current_freq")
    assert found == NPU_SAMPLE


def test_npu_exporter_names_the_chip_in_its_own_series() -> None:
    [found] = shown(node(CHIP_910A), "npu-exporter", "npu_chip_info_name")
    assert found["name"] == NPU_SAMPLE["model_name"]
    assert "model_name" not in found


def test_npu_exporter_chip_of_a_pod() -> None:
    usage = on(CHIP_910A, "train-0", "ascend", namespace="default", allocated=1)
    [found] = shown(node(CHIP_910A, pod_usages=(usage,)), "npu-exporter", "container_npu_utilization")
    held = {"namespace": "default", "pod_name": "train-0", "container_name": "ascend"}
    assert found == NPU_SAMPLE | held


# Furiosa's exporters: the page that the vendor documents for 2024.1


@pytest.fixture
def furiosa_page(captures: Path) -> str:
    return (captures / "furiosa" / "metrics-exporter_2024.1.prom").read_text()


def values(found: list[Labels], label: str) -> set[str]:
    return {labels[label] for labels in found}


RNGD_0 = replace(
    RNGD,
    device_name="npu0",
    uuid="uuid",
    sensors=(Sensor("PEAK", 39.0), Sensor("AMBIENT", 35.0)),
    errors=(
        *(
            ErrorCount("axi", f"{bus}_{kind}", 0)
            for bus in ("axi", "pcie")
            for kind in ("post_error", "fetch_error", "discard_error", "doorbell_done")
        ),
        ErrorCount("device", "device_error", 0),
    ),
)


@pytest.mark.parametrize(
    "name",
    [
        "furiosa_npu_alive",
        "furiosa_npu_error",
        "furiosa_npu_hw_temperature",
        "furiosa_npu_hw_power",
        "furiosa_npu_core_utilization",
    ],
)
def test_furiosa_rngd(furiosa_page: str, name: str) -> None:
    found = shown(node(RNGD_0, node="node"), "furiosa", name)
    assert sorted(map(sorted, map(dict.items, found))) == sorted(
        map(sorted, map(dict.items, series(furiosa_page, name)))
    )


@pytest.mark.parametrize(
    "name", ["furiosa_npu_hw_temperature", "furiosa_npu_hw_power", "furiosa_npu_core_utilization"]
)
def test_furiosa_2025_has_the_same_parts(furiosa_page: str, name: str) -> None:
    """Its later labels are other ones; what tells the series of a card apart is the same."""
    found, sample = shown(node(RNGD_0), "furiosa-2025", name), series(furiosa_page, name)
    for label in ("arch", "core", "device", "uuid", *(["label"] if "label" in sample[0] else [])):
        assert values(found, label) == values(sample, label)


# k8s-vgpu-monitor


def test_vgpu_writes_the_pod_and_the_number_of_a_card() -> None:
    usage = on(H100, "gpu-pod-1", memory_used_bytes=GIB, allocated=1)
    [found] = shown(node(H100, pod_usages=(usage,)), "vgpu", "pod_gpu_memory_used")
    assert (found["pod"], found["gpu_id"]) == ("gpu-pod-1", "0")


# The operators' recording rules: labels of the source, and the vendor


def test_openshift_has_the_values_of_dcgm_exporter() -> None:
    snapshot = node(H100, pod_usages=(on(H100, "train", allocated=1),))
    [source] = shown(snapshot, "dcgm", "DCGM_FI_DEV_GPU_UTIL")
    [found] = shown(snapshot, "openshift", "accelerator_gpu_utilization")
    del source["device"]
    assert (source | {"vendor": "nvidia"}).items() <= found.items()
