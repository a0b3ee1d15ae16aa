"""Counters files of dcgm-exporter select the families of the dialect `dcgm` and their types."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.metrics.dialect_nodes import CUT_H100, GIB, H100, RTX, later, node

from accelscope.metrics import dialects
from accelscope.metrics.dialects import DialectError
from accelscope.metrics.exposition import Exposition
from accelscope.model import (
    Clock,
    Device,
    EccCount,
    Fan,
    Link,
    LinkErrors,
    Pcie,
    RemappedRows,
    Snapshot,
    Throttle,
)

FULL = replace(
    H100,
    sm_occupancy_ratio=0.125,
    fp64_active_ratio=0.01,
    fp32_active_ratio=0.02,
    fp16_active_ratio=0.03,
    bar1_total_bytes=128 * GIB,
    bar1_used_bytes=GIB,
    temperature_slowdown_celsius=87.0,
    temperature_shutdown_celsius=92.0,
    power_limit_watts=650.0,
    power_limit_default_watts=700.0,
    power_limit_min_watts=200.0,
    power_limit_max_watts=700.0,
    performance_state=0,
    persistence_mode=True,
    mig_enabled=False,
    ecc_enabled=True,
    fans=(Fan(0, speed_ratio=0.0),),
    clocks=(
        Clock("sm", 1.98e9, 1.99e9),
        Clock("memory", 2.619e9, 2.62e9),
        Clock("video", 1.5e9, 1.6e9),
    ),
    throttles=(
        Throttle("gpu_idle", active=False),
        Throttle("sw_power_cap", active=True),
        Throttle("hw_thermal_slowdown", active=True),
    ),
    pcie=Pcie(4, 5, 8, 16, 0, transmit_bytes_per_second=1.5e6, receive_bytes_per_second=0.0),
    links=(
        Link(
            "nvlink",
            0,
            active=True,
            transmit_bytes_total=4e9,
            receive_bytes_total=2e9,
            errors=(LinkErrors("dl_replay", 2), LinkErrors("dl_recovery", 0)),
        ),
        Link("nvlink", 1, active=True, transmit_bytes_total=1e9, receive_bytes_total=3e9),
    ),
    ecc=(
        EccCount("corrected", lifetime=False, count=0),
        EccCount("uncorrected", lifetime=False, count=1),
        EccCount("corrected", lifetime=True, count=2),
        EccCount("uncorrected", lifetime=True, count=3),
        EccCount("corrected", lifetime=False, count=4, block="dram"),
        EccCount("uncorrected", lifetime=True, count=5, block="l2_cache"),
        EccCount("uncorrected", lifetime=False, count=6, block="sram"),
        EccCount("corrected", lifetime=True, count=7, block="register_file"),
    ),
    retired_pages=(EccCount("corrected", True, 0), EccCount("uncorrected", True, 2)),
    remapped_rows=RemappedRows(correctable=1, uncorrectable=0, pending=True, failed=False),
)

# field -> expected labels and value; units and codes follow dcgm_fields.h
FURTHER = {
    "DCGM_FI_PROF_SM_ACTIVE": "0.250000",
    "DCGM_FI_PROF_SM_OCCUPANCY": "0.125000",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": "0.010000",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": "0.020000",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": "0.030000",
    "DCGM_FI_DEV_FB_TOTAL": "81920",
    "DCGM_FI_DEV_FB_USED_PERCENT": "0.379752",  # a little more than 30 of 79 GiB
    "DCGM_FI_DEV_BAR1_TOTAL": "131072",
    "DCGM_FI_DEV_BAR1_USED": "1024",
    "DCGM_FI_DEV_BAR1_FREE": "130048",
    "DCGM_FI_DEV_SLOWDOWN_TEMP": "87",
    "DCGM_FI_DEV_SHUTDOWN_TEMP": "92",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "650.000000",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": "700.000000",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN": "200.000000",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX": "700.000000",
    "DCGM_FI_DEV_PSTATE": "0",
    "DCGM_FI_DEV_PERSISTENCE_MODE": "1",
    "DCGM_FI_DEV_MIG_MODE": "0",
    "DCGM_FI_DEV_ECC_CURRENT": "1",
    "DCGM_FI_DEV_FAN_SPEED": "0",
    "DCGM_FI_DEV_VIDEO_CLOCK": "1500",
    "DCGM_FI_DEV_MAX_SM_CLOCK": "1990",
    "DCGM_FI_DEV_MAX_MEM_CLOCK": "2620",
    "DCGM_FI_DEV_MAX_VIDEO_CLOCK": "1600",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": str(0x04 + 0x40),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": str(0x04 + 0x40),
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": "1500",  # KB/s of 1,000 bytes, as NVML gives them
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": "0",
    "DCGM_FI_DEV_PCIE_LINK_GEN": "4",
    "DCGM_FI_DEV_PCIE_MAX_LINK_GEN": "5",
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": "8",
    "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH": "16",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "0",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "1",
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": "2",
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": "3",
    "DCGM_FI_DEV_ECC_SBE_VOL_DEV": "4",
    "DCGM_FI_DEV_ECC_DBE_AGG_L2": "5",
    "DCGM_FI_DEV_ECC_DBE_VOL_SRM": "6",
    "DCGM_FI_DEV_ECC_SBE_AGG_REG": "7",
    "DCGM_FI_DEV_RETIRED_SBE": "0",
    "DCGM_FI_DEV_RETIRED_DBE": "2",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "1",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "2",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "0",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "200000000",  # 100 MB/s each way on each of 2 links
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "100000000",
}


def next_reading(snapshot: Snapshot) -> Snapshot:
    """Ten seconds later: only the traffic of links has changed."""
    after = later(snapshot)
    devices = tuple(
        replace(
            then,
            throttles=now.throttles,
            links=tuple(replace(b, errors=a.errors) for a, b in zip(now.links, then.links, strict=True)),
        )
        for now, then in zip(snapshot.devices, after.devices, strict=True)
    )
    return replace(after, devices=devices)


@pytest.fixture
def counters(tmp_path: Path) -> "Counters":
    return Counters(tmp_path / "counters.csv")


class Counters:
    """A counters file and the resulting page."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> str:
        self.path.write_text(text)
        return str(self.path)

    def dialect(self, text: str, **options: str) -> dialects.Dialect:
        [made] = dialects.load(("dcgm",), dcgm_counters=self.write(text), **options)
        return made

    def page(self, text: str, snapshot: Snapshot, **options: str) -> str:
        exposition = Exposition(families=(), dialects=[self.dialect(text, **options)])
        exposition.render(snapshot)
        return exposition.render(next_reading(snapshot)).text.decode()

    def value(self, field: str, device: Device) -> list[str]:
        text = self.page(f"{field}, gauge, x", node(device))
        return re.findall(rf"^{field}{{.*}} (\S+)$", text, re.MULTILINE)


@pytest.mark.parametrize("field", FURTHER)
def test_a_field_outside_the_default_list_can_be_selected(field: str, counters: Counters) -> None:
    assert counters.value(field, FULL) == [FURTHER[field]]


@pytest.mark.parametrize("field", FURTHER)
def test_a_field_that_the_device_lacks_has_no_series(field: str, counters: Counters) -> None:
    bare = Device(vendor=H100.vendor, id=H100.id, index=0, read_at=H100.read_at)
    assert counters.value(field, bare) == []


def test_the_page_has_the_fields_types_and_help_texts_of_the_file(counters: Counters) -> None:
    text = counters.page(
        "# my list\n"
        "\n"
        '  # DCGM_FI_DEV_FB_USED, gauge, "commented out\n'
        " , ,\n"
        "DCGM_FI_DEV_GPU_TEMP,   gauge, Temperature (in C).\n"
        'DCGM_FI_DEV_GPU_UTIL ,counter,"Busy, in %"\n'
        "DCGM_FI_DEV_SERIAL, label, Serial\n",
        node(H100),
    )
    labels = (
        'gpu="0",UUID="GPU-11111111-2222-3333-4444-555555555555",pci_bus_id="00000000:1B:00.0",'
        'device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="worker-1",'
        'DCGM_FI_DEV_SERIAL="1650000000001"'
    )
    assert text == (
        "# HELP DCGM_FI_DEV_GPU_TEMP Temperature (in C).\n"
        "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 41\n"
        "# HELP DCGM_FI_DEV_GPU_UTIL Busy, in %\n"
        "# TYPE DCGM_FI_DEV_GPU_UTIL counter\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 29\n"
    )


def test_labels_of_the_file_follow_the_host_name_in_alphabetical_order(
    counters: Counters,
) -> None:
    text = counters.page(
        "DCGM_FI_DRIVER_VERSION, label, x\n"
        "DCGM_FI_DEV_VBIOS_VERSION, label, x\n"
        "DCGM_FI_DEV_GPU_TEMP, gauge, x\n",
        node(H100),
    )
    assert (
        'Hostname="worker-1",DCGM_FI_DEV_VBIOS_VERSION="96.00.89.00.01",DCGM_FI_DRIVER_VERSION="570.86.15"}'
    ) in text


def test_an_instance_has_its_own_memory(counters: Counters) -> None:
    assert counters.value("DCGM_FI_DEV_FB_TOTAL", CUT_H100) == ["40960", "10240"]
    assert counters.value("DCGM_FI_DEV_FB_USED_PERCENT", CUT_H100) == ["0.256410"]


def test_throttle_reasons_are_0_while_none_is_active(counters: Counters) -> None:
    free = replace(H100, throttles=(Throttle("sw_power_cap", active=False),))
    assert counters.value("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", free) == ["0"]


def test_unavailable_fields_are_listed_with_line_and_reason(counters: Counters) -> None:
    made = counters.dialect(
        "DCGM_FI_DEV_GPU_TEMP, gauge, x\n"
        "# DCGM_FI_DEV_NOT_ASKED_FOR, gauge, x\n"
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, x\n"
        "DCGM_FI_DEV_POWER_VIOLATION, counter, x\n"
        "DCGM_FI_DEV_POWER_MGMT_LIMIT, gauge, x\n"
        "DCGM_EXP_XID_ERRORS_COUNT, gauge, x\n"
        "DCGM_FI_DEV_BRAND, label, x\n"
        "DCGM_FI_DEV_SERIAL, gauge, x\n"
        "DCGM_FI_DEV_NEVER_HEARD_OF, gauge, x\n"
    )
    assert [family.name for family in made.families] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert [f"{item.line} {item.field}: {item.reason}" for item in made.unavailable] == [
        "3 DCGM_FI_DEV_VGPU_LICENSE_STATUS: licences of virtual GPUs are not read",
        "4 DCGM_FI_DEV_POWER_VIOLATION: AccelScope reads which throttle reasons are active, not for how long",
        "5 DCGM_FI_DEV_POWER_MGMT_LIMIT: DCGM_FI_DEV_ENFORCED_POWER_LIMIT has the power limit in effect",
        "6 DCGM_EXP_XID_ERRORS_COUNT: the native family accelerator_errors_total counts errors by code",
        "7 DCGM_FI_DEV_BRAND: AccelScope does not read it",
        "8 DCGM_FI_DEV_SERIAL: a text: only available as a label",
        "9 DCGM_FI_DEV_NEVER_HEARD_OF: AccelScope does not read it",
    ]


BAD = [
    ("DCGM_FI_DEV_GPU_TEMP, gauge\n", ":1: 2 columns instead of 3: field, type, help text"),
    (
        "\n# x\nDCGM_FI_DEV_GPU_TEMP, gauge, hot, in C\n",
        ":3: 4 columns instead of 3: field, type, help text. A help text that contains commas needs double "
        "quotes",
    ),
    ("DCGM_FI_DEV_GPU_TEMP, gouge, x\n", ":1: invalid type 'gouge'; allowed: gauge, counter, label"),
    ("DCGM_FI_DEV_GPU_TEMP, histogram, x\n", ":1: invalid type 'histogram'; allowed: gauge, counter, label"),
    ("dcgm_gpu_temp, gauge, x\n", ":1: 'dcgm_gpu_temp' is not the name of a DCGM field"),
    (
        "DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, y\n",
        ":2: DCGM_FI_DEV_GPU_TEMP is already on line 1",
    ),
    ('DCGM_FI_DEV_GPU_TEMP, gauge, "x\n', ":1: a double quote is never closed"),
    ("# nothing\n", ": no counters, only comments or empty lines"),
    ("", ": no counters, only comments or empty lines"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD)
def test_a_malformed_file_is_an_error_with_its_line(text: str, complaint: str, counters: Counters) -> None:
    with pytest.raises(DialectError) as caught:
        counters.dialect(text)
    assert str(caught.value) == f"{counters.path}{complaint}"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match="No such file"):
        dialects.load(("dcgm",), dcgm_counters=str(tmp_path / "absent.csv"))
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DialectError, match="not UTF-8"):
        dialects.load(("dcgm",), dcgm_counters=str(tmp_path / "bytes.csv"))


def test_a_file_from_windows_is_read(counters: Counters) -> None:
    made = counters.dialect("\ufeffDCGM_FI_DEV_GPU_TEMP, gauge, x\r\nDCGM_FI_DEV_GPU_UTIL, gauge, y\r\n")
    assert [family.name for family in made.families] == ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL"]


def test_without_a_file_the_default_list_is_used() -> None:
    [made] = dialects.load(("dcgm",))
    assert len(made.families) == 24  # the exporter's 25 without the state of vGPU licences
    assert not set(FURTHER) & {family.name for family in made.families}
    assert set(FURTHER) <= {family.name for family in made.optional_families}


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_the_host_label_can_be_selected(label: str) -> None:
    [made] = dialects.load(("dcgm",), dcgm_hostname_label=label)
    page = Exposition(families=(), dialects=[made]).render(node(RTX)).text.decode()
    assert f',{label}="worker-1",' in page
    assert f',{label.swapcase()[0]}ostname="' not in page
