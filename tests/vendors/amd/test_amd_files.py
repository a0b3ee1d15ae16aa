"""The driver's files, in folders that the tests write."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.vendors.amd.amd_tree import (
    HEALTHY,
    SENSORS,
    Clock,
    lay_out_gpu,
    only_device,
    reader_of,
    reasons,
    write,
)
from tests.vendors.common.test_throttle_words import AMD as THROTTLES

from accelscope.model import (
    FAULT_THROTTLES,
    Device,
    ErrorCount,
    Health,
    HealthState,
    ProcessType,
    Throttle,
    Vendor,
)
from accelscope.vendors.amd import gpu, gpu_files
from accelscope.vendors.amd.gpu import find_problems, worst_problem
from accelscope.vendors.amd.gpu_files import reason_of
from accelscope.vendors.common import files
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent

MIB = 2**20


def test_a_node_without_the_driver_raises_driver_absent(tmp_path: Path) -> None:
    with pytest.raises(DriverAbsent):
        reader_of(tmp_path).survey()


def test_the_driver_without_a_gpu_has_no_devices(tmp_path: Path) -> None:
    write(tmp_path, {"sys/module/amdgpu/version": "6.14.14"})
    survey = reader_of(tmp_path).survey()
    assert (survey.keys, survey.driver_version) == ((), "6.14.14")


def test_the_in_tree_driver_has_the_version_of_the_kernel(tmp_path: Path) -> None:
    write(tmp_path, {"proc/sys/kernel/osrelease": "6.14.0-24-generic"})
    lay_out_gpu(tmp_path, HEALTHY)
    assert reader_of(tmp_path).survey().driver_version == "6.14.0-24-generic"
    assert only_device(tmp_path).driver_version == "6.14.0-24-generic"


def test_only_amdgpu_cards_are_read_in_the_order_of_pci_addresses(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {}, card=0, vendor="0x1a03", driver="ast", pci="0000:01:00.0")
    lay_out_gpu(tmp_path, {}, card=1, driver="radeon", pci="0000:02:00.0")
    lay_out_gpu(tmp_path, {}, card=2, driver="vfio-pci", pci="0000:03:00.0")
    lay_out_gpu(tmp_path, {**HEALTHY, "unique_id": "00000000000000ff"}, card=57, pci="0000:c3:00.0")
    lay_out_gpu(tmp_path, HEALTHY, card=9, pci="0000:23:00.0")
    write(tmp_path, {"sys/class/drm/card9-DP-1/device/vendor": "0x1002"})
    reader = reader_of(tmp_path)
    keys = reader.survey().keys
    assert keys == ("amd:0000:23:00.0", "amd:0xff")
    assert [reader.read(key).device.index for key in keys] == [0, 1]


def test_two_cards_with_the_same_unique_id_stay_two_devices(tmp_path: Path) -> None:
    for card in (0, 1):
        lay_out_gpu(tmp_path, {**HEALTHY, "unique_id": "abcd"}, card=card, pci=f"0000:0{card}:00.0")
    reader = reader_of(tmp_path)
    assert reader.survey().keys == ("amd:0000:00:00.0", "amd:0000:01:00.0")
    (tmp_path / "sys/class/drm/card0").rename(tmp_path / "gone")
    assert reader.survey().keys == ("amd:0000:01:00.0",)
    (tmp_path / "gone").rename(tmp_path / "sys/class/drm/card0")
    assert reader.survey().keys == ("amd:0000:00:00.0", "amd:0000:01:00.0")


def test_a_card_without_bus_and_driver_information_is_read(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/drm/card3/device", {"vendor": "0x1002", **HEALTHY})
    write(tmp_path / "sys/class/drm/card4/device", {"vendor": "0x1002", "gpu_busy_percent": "1"})
    device = only_device(tmp_path)
    assert (device.id, device.utilization_ratio, device.pci_address) == ("amd:unidentified-3", 0.12, None)


def test_sensors_are_named_by_their_labels(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, HEALTHY)
    device = only_device(tmp_path)
    assert {s.name: s.celsius for s in device.sensors} == {"edge": 41.0, "junction": 52.0, "memory": 48.0}
    assert device.temperature_celsius == 41.0
    assert (device.temperature_slowdown_celsius, device.temperature_shutdown_celsius) == (100.0, 105.0)
    assert (device.power_watts, device.memory_free_bytes) == (61.0, 600)
    assert device.health.state is HealthState.OK


def test_a_chip_without_an_edge_sensor_has_the_junction_temperature(tmp_path: Path) -> None:
    lay_out_gpu(
        tmp_path,
        {
            "gpu_busy_percent": "1",
            "hwmon/hwmon2/temp2_label": "junction",
            "hwmon/hwmon2/temp2_input": "52000",
            "hwmon/hwmon2/temp2_crit": "99000",
            "hwmon/hwmon2/power1_input": "140000000",
        },
    )
    device = only_device(tmp_path)
    assert (device.temperature_celsius, device.temperature_slowdown_celsius) == (52.0, 99.0)
    assert device.power_watts == 140.0


def test_missing_values_are_absent_with_a_reason(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "1", "product_name": ""})
    assert reasons(only_device(tmp_path)) == {
        "model": "not_known",
        "memory_utilization_ratio": "not_supported",
        "memory_total_bytes": "not_supported",
        "memory_used_bytes": "not_supported",
        "temperature_celsius": "not_supported",
        "power_watts": "not_supported",
    }


def test_an_unreadable_file_affects_only_its_own_value(
    open_folder: Path, ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    device = lay_out_gpu(open_folder, HEALTHY)
    (device / "gpu_busy_percent").chmod(0)
    with ordinary_user():
        read = only_device(open_folder)
    assert reasons(read)["utilization_ratio"] == "no_permission"
    assert read.temperature_celsius == 41.0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "no_sample"),  # EPERM
        (5, "driver_error"),  # EIO
        (13, "no_permission"),  # EACCES
        (16, "no_sample"),  # EBUSY
        (19, "lost"),  # ENODEV
        (22, "not_supported"),  # EINVAL
        (95, "not_supported"),  # EOPNOTSUPP
        (110, "timeout"),  # ETIMEDOUT
    ],
)
def test_kernel_errors_map_to_absence_reasons(code: int, reason: str) -> None:
    assert reason_of(OSError(code, "")) == reason


@pytest.mark.parametrize(
    ("text", "absent"),
    [("", "no_sample"), ("many", "unreadable"), ("250", "unreadable"), ("-1", "unreadable")],
)
def test_a_file_with_unexpected_content_is_absent(tmp_path: Path, text: str, absent: str) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "gpu_busy_percent": text})
    assert reasons(only_device(tmp_path))["utilization_ratio"] == absent


def test_a_gpu_with_only_read_errors_is_lost(tmp_path: Path) -> None:
    device = lay_out_gpu(tmp_path, HEALTHY)
    for name in ("gpu_busy_percent", *SENSORS):
        if not name.endswith("_label"):
            (device / name).unlink()
            (device / name).mkdir()  # reading a folder is an error
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    with pytest.raises(DeviceLost):
        reader.read(key)


def test_a_gpu_during_a_reset_has_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> str:
        if path.endswith(("_percent", "_input", "_average")):
            raise PermissionError(1, "Operation not permitted")
        return files.read_text(path)

    lay_out_gpu(tmp_path, HEALTHY)
    for module in (gpu, gpu_files):
        monkeypatch.setattr(module, "read_text", refuse)
    device = only_device(tmp_path)
    assert device.health.state is HealthState.WARNING
    assert reasons(device)["utilization_ratio"] == "no_sample"
    assert device.memory_total_bytes == 1000


def test_a_suspended_gpu_is_not_woken(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {"power/runtime_status": "suspended", "unique_id": "ff", "vbios_version": "113-X"})
    device_folder = tmp_path / "sys/class/drm/card0/device"
    for name in ("gpu_busy_percent", "mem_info_vram_used", "pp_dpm_sclk"):
        os.mkfifo(device_folder / name)  # reading it blocks forever
    device = only_device(tmp_path)
    assert (device.id, device.firmware_version) == ("amd:0xff", "113-X")
    assert (device.health.state, device.health.vendor_word) == (HealthState.OK, "suspended")
    assert reasons(device)["utilization_ratio"] == "suspended"
    assert device.memory_total_bytes is None


def test_the_hwmon_folder_may_change_its_name(tmp_path: Path) -> None:
    device = lay_out_gpu(tmp_path, HEALTHY)
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    assert reader.read(key).device.temperature_celsius == 41.0
    (device / "hwmon/hwmon7").rename(device / "hwmon/hwmon8")
    reader.read(key)
    assert reader.read(key).device.temperature_celsius == 41.0


RAS = {"ras/umc_err_count": "ue: 0\nce: 3", "ras/gfx_err_count": "ue: 0\nce: 1", "ras/features": "x"}


def test_errors_by_block_have_the_time_of_their_last_increase(tmp_path: Path) -> None:
    device = lay_out_gpu(tmp_path, {**HEALTHY, **RAS})
    clock = Clock()
    reader = reader_of(tmp_path, clock)
    [key] = reader.survey().keys
    first = reader.read(key).device
    assert {(e.severity, e.block): e.count for e in first.ecc} == {
        ("corrected", "umc"): 3,
        ("uncorrected", "umc"): 0,
        ("corrected", "gfx"): 1,
        ("uncorrected", "gfx"): 0,
        ("corrected", None): 4,
        ("uncorrected", None): 0,
    }
    assert {(e.kind, e.code, e.count, e.last_seen) for e in first.errors} == {
        ("ras", "umc.ce", 3, None),
        ("ras", "gfx.ce", 1, None),
    }
    assert first.health.state is HealthState.OK
    clock.now = 2000.0
    write(device, {"ras/umc_err_count": "ue: 2\nce: 9"})
    second = reader.read(key).device
    assert {(e.code, e.count, e.last_seen) for e in second.errors} == {
        ("umc.ue", 2, 2000.0),
        ("umc.ce", 9, 2000.0),
        ("gfx.ce", 1, None),
    }
    assert (second.health.state, second.health.cause) == (HealthState.WARNING, "ecc_uncorrected")
    write(device, {"ras/umc_err_count": "ue: 0\nce: 0"})
    assert reader.read(key).device.health.state is HealthState.OK


@pytest.mark.parametrize("silence", ["Query currently inaccessible\n", None], ids=["a sentence", "an error"])
def test_error_totals_do_not_fall_during_a_reset(tmp_path: Path, silence: str | None) -> None:
    device = lay_out_gpu(tmp_path, {**HEALTHY, **RAS})
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys

    def sums() -> dict[str, int]:
        return {e.severity: e.count for e in reader.read(key).device.ecc if e.block is None}

    before = sums()
    assert before == {"corrected": 4, "uncorrected": 0}
    file = device / "ras/umc_err_count"
    if silence is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_text(silence)
    broken = reader.read(key).device
    assert {(e.severity, e.block) for e in broken.ecc} == {("corrected", "gfx"), ("uncorrected", "gfx")}
    assert {"ecc.corrected", "ecc.uncorrected", "ecc.uncorrected.umc"} <= {a.field for a in broken.absent}
    if silence is None:
        file.rmdir()
    write(device, RAS)
    assert sums() == before


def test_a_block_that_was_never_readable_does_not_affect_the_total(tmp_path: Path) -> None:
    device = lay_out_gpu(tmp_path, {**HEALTHY, **RAS})
    (device / "ras/sdma_err_count").mkdir()
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    for _ in range(2):
        sums = {e.severity: e.count for e in reader.read(key).device.ecc if e.block is None}
        assert sums == {"corrected": 4, "uncorrected": 0}


def test_errors_after_a_driver_reload_have_a_time(tmp_path: Path) -> None:
    device = lay_out_gpu(tmp_path, {**HEALTHY, "ras/umc_err_count": "ue: 5\nce: 0"})
    clock = Clock()
    reader = reader_of(tmp_path, clock)
    [key] = reader.survey().keys
    assert reader.read(key).device.errors == (ErrorCount("ras", "umc.ue", 5),)
    clock.now = 2000.0
    write(device, {"ras/umc_err_count": "ue: 1\nce: 0"})
    again = reader.read(key).device
    assert again.errors == (ErrorCount("ras", "umc.ue", 1, 2000.0),)


@pytest.mark.parametrize(
    ("letters", "state"),
    [("", HealthState.OK), ("R", HealthState.OK), ("RP", HealthState.WARNING), ("RPF", HealthState.CRITICAL)],
)
def test_bad_pages_determine_the_health(tmp_path: Path, letters: str, state: HealthState) -> None:
    pages = "\n".join(f"0x{n:08x} : 0x00001000 : {letter}" for n, letter in enumerate(letters))
    lay_out_gpu(tmp_path, {**HEALTHY, **RAS, "ras/gpu_vram_bad_pages": pages})
    device = only_device(tmp_path)
    assert [pages.count for pages in device.retired_pages] == [len(letters)]
    assert device.health.state is state


def test_all_bad_pages_are_counted_if_one_read_returns_only_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this file the kernel gives at most a page at each read, in whole lines."""
    whole = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, most: whole(descriptor, min(most, 4088)))
    pages = "".join(f"0x{n:08x} : 0x00001000 : {'R' if n < 299 else 'F'}\n" for n in range(300))
    lay_out_gpu(tmp_path, {**HEALTHY, **RAS, "ras/gpu_vram_bad_pages": pages})
    device = only_device(tmp_path)
    assert [pages.count for pages in device.retired_pages] == [300]
    assert device.health.state is HealthState.CRITICAL


@pytest.mark.parametrize(
    ("celsius", "expected"),
    [
        (99, (HealthState.OK, None, None)),
        (
            100,
            (
                HealthState.WARNING,
                "temperature_slowdown",
                "at the slowdown temperature: 100 °C, limit 100 °C",
            ),
        ),
        (
            104,
            (
                HealthState.WARNING,
                "temperature_slowdown",
                "above the slowdown temperature: 104 °C, limit 100 °C",
            ),
        ),
        (
            115,
            (
                HealthState.CRITICAL,
                "temperature_shutdown",
                "above the shutdown temperature: 115 °C, limit 105 °C",
            ),
        ),
    ],
)
def test_temperature_above_a_limit_determines_the_health(
    tmp_path: Path, celsius: int, expected: tuple[HealthState, str | None, str | None]
) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "hwmon/hwmon7/temp1_input": f"{celsius}000"})
    health = only_device(tmp_path).health
    assert (health.state, health.cause, health.reason) == expected


@pytest.mark.parametrize("reason", THROTTLES)
def test_throttling_that_the_alert_reports_is_a_warning(reason: str) -> None:
    device = Device(
        vendor=Vendor("amd"), id="amd:1", throttles=tuple(Throttle(one, one == reason) for one in THROTTLES)
    )
    health = worst_problem(find_problems(device))
    if reason in FAULT_THROTTLES:
        assert (health.state, health.cause) == (HealthState.WARNING, "throttled")
        assert health.reason == f"throttled by heat or power supply: {reason}"
    else:
        assert health == Health(HealthState.OK)


def die(root: Path, number: int, watts: int, **values: str) -> None:
    lay_out_gpu(
        root,
        {
            **HEALTHY,
            "device": "0x740c",
            "unique_id": f"{number + 1:x}",
            "hwmon/hwmon7/power1_average": f"{watts}000000",
            "hwmon/hwmon7/power1_cap": "560000000",
            **values,
        },
        card=number,
        pci=f"0000:{number + 16:x}:00.0",
    )


@pytest.mark.parametrize(
    "values",
    [
        [{"serial_number": f"PCB-{n // 2}"} for n in range(4)],
        [{"xgmi_hive_info/xgmi_hive_id": "77", "xgmi_physical_id": str(n)} for n in range(4)],
        [{} for n in range(4)],
    ],
    ids=["serial number", "place in the hive", "nothing but their order"],
)
@pytest.mark.parametrize("watts", [(300, 300, 200, 200), (300, 0, 200, 0), (0, 300, 0, 200)])
def test_the_power_of_a_module_with_two_dies_is_published_once(
    tmp_path: Path, values: list[dict[str, str]], watts: tuple[int, ...]
) -> None:
    for number, (power, facts) in enumerate(zip(watts, values, strict=True)):
        die(tmp_path, number, power, **facts)
    reader = reader_of(tmp_path)
    for _ in range(2):  # which of the dies shows it is known after a first look
        devices = [reader.read(key).device for key in reader.survey().keys]
    powers = [device.power_watts for device in devices]
    assert [power for power in powers if power is not None] == [300.0, 200.0]
    for device in devices:
        if device.power_watts is None:
            assert reasons(device)["power_watts"] == "shared"
            assert device.power_limit_watts is None
            assert reasons(device)["energy_joules"] == "shared"


def test_part_number_and_pci_device_id_of_a_board_are_read(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "device": "0x74a1", "product_number": "102-G30211-0C"})
    device = only_device(tmp_path)
    assert (device.part_number, device.pci_device_id) == ("102-G30211-0C", "0x74a1")


@pytest.mark.parametrize("text", ["", "N/A", "0"])
def test_a_board_without_a_part_number_has_none(tmp_path: Path, text: str) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "product_number": text})
    assert only_device(tmp_path).part_number is None


def kfd_node(number: int, gpu_id: int, location: int, minor: int, **values: int) -> dict[str, str]:
    facts = {
        "simd_count": 416,
        "simd_per_cu": 4,
        "gfx_target_version": 90010,
        "domain": 0,
        "location_id": location,
        "drm_render_minor": minor,
        **values,
    }
    folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
    return {
        f"{folder}/gpu_id": str(gpu_id),
        f"{folder}/properties": "\n".join(f"{name} {value}" for name, value in facts.items()),
    }


AT_09 = 0x0900  # 0000:09:00.0


def fdinfo(client: int, vram: int, **engines: int) -> str:
    lines = [
        "drm-driver:\tamdgpu",
        f"drm-client-id:\t{client}",
        "drm-pdev:\t0000:09:00.0",
        f"drm-memory-vram:\t{vram} KiB",
    ]
    return "\n".join([*lines, *(f"drm-engine-{name}:\t{spent} ns" for name, spent in engines.items())])


def open_file(root: Path, pid: int, descriptor: int, node: str, text: str) -> None:
    write(root, {f"proc/{pid}/fdinfo/{descriptor}": text})
    link = root / f"proc/{pid}/fd/{descriptor}"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(f"/dev/dri/{node}")


def test_compute_processes_have_memory_and_occupancy(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "drm/renderD129/dev": "226:129"})
    proc = "sys/class/kfd/kfd/proc"
    write(
        tmp_path,
        {
            **kfd_node(1, 777, AT_09, 129),
            **kfd_node(2, 778, 0x0A00, 130),
            f"{proc}/41/vram_777": str(5 * MIB),
            f"{proc}/41/stats_777/cu_occupancy": "26",
            f"{proc}/41/vram_778": "0",
            f"{proc}/42/vram_777": "0",
            f"{proc}/42/vram_778": str(MIB),
        },
    )
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    reading = reader.read(key)
    assert reading.device.architecture == "gfx90a"
    assert reading.device.device_name == "renderD129"
    [process] = reading.processes
    assert (process.pid, process.memory_bytes, process.utilization_ratio) == (41, 5 * MIB, 0.25)
    assert (process.type, process.device) == (ProcessType.COMPUTE, key)


def test_processes_with_open_device_files_have_memory_and_utilization(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "drm/renderD129/dev": "226:129"})
    open_file(tmp_path, 50, 7, "renderD129", fdinfo(1, 2048, gfx=10**9))
    open_file(tmp_path, 50, 8, "renderD129", fdinfo(1, 2048, gfx=10**9))  # a copy of the same opening
    open_file(tmp_path, 50, 9, "card0", fdinfo(2, 1024, enc=10**9))
    open_file(tmp_path, 51, 3, "renderD130", fdinfo(3, 1024, gfx=5))  # another GPU
    open_file(tmp_path, 52, 4, "renderD129", fdinfo(4, 0))  # a monitor
    open_file(tmp_path, 53, 5, "renderD129", "drm-driver:\ti915\ndrm-client-id:\t9")
    clock = Clock()
    reader = reader_of(tmp_path, clock)
    [key] = reader.survey().keys
    [process] = reader.read(key).processes
    assert (process.pid, process.memory_bytes) == (50, 3072 * 1024)
    assert (process.type, process.utilization_ratio) == (ProcessType.GRAPHICS, None)
    clock.now += 10
    for descriptor in (7, 8):
        open_file(tmp_path, 50, descriptor, "renderD129", fdinfo(1, 2048, gfx=4 * 10**9, compute=10**8))
    open_file(tmp_path, 50, 9, "card0", fdinfo(2, 1024, enc=6 * 10**9))
    reader.survey()
    [process] = reader.read(key).processes
    assert (process.utilization_ratio, process.encoder_utilization_ratio) == (0.3, 0.5)
    assert process.decoder_utilization_ratio is None
    assert process.type is ProcessType.BOTH


def test_a_process_in_both_sources_is_listed_once(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "drm/renderD129/dev": "226:129"})
    write(
        tmp_path,
        {**kfd_node(1, 777, AT_09, 129), "sys/class/kfd/kfd/proc/41/vram_777": str(5 * MIB)},
    )
    open_file(tmp_path, 41, 7, "renderD129", fdinfo(1, 6 * 1024))
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    [process] = reader.read(key).processes
    assert (process.pid, process.memory_bytes, process.type) == (41, 6 * MIB, ProcessType.COMPUTE)


def test_processes_without_a_device_file_are_scanned_less_often(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "drm/renderD129/dev": "226:129"})
    (tmp_path / "proc/60/fd").mkdir(parents=True)
    clock = Clock()
    reader = reader_of(tmp_path, clock)
    [key] = reader.survey().keys
    open_file(tmp_path, 60, 3, "renderD129", fdinfo(1, 64))
    for seconds, seen in ((1, 0), (40, 1)):
        clock.now = 1000.0 + seconds
        reader.survey()
        assert len(reader.read(key).processes) == seen


def test_each_node_of_the_compute_driver_is_a_partition(tmp_path: Path) -> None:
    lay_out_gpu(
        tmp_path,
        {
            **HEALTHY,
            "current_compute_partition": "DPX",
            "current_memory_partition": "NPS1",
            "unique_id": "ab",
        },
    )
    for number, location in ((1, AT_09), (2, AT_09 | 1 << 28)):
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}/mem_banks/0"
        write(
            tmp_path,
            {
                **kfd_node(number, 700 + number, location, 128 + number),
                f"{folder}/properties": "heap_type 1\nsize_in_bytes 4096",
                f"{folder}/used_memory": "1024",
                f"sys/class/kfd/kfd/proc/4{number}/vram_70{number}": "512",
            },
        )
    reader = reader_of(tmp_path)
    [key] = reader.survey().keys
    reading = reader.read(key)
    assert (reading.device.compute_partition, reading.device.memory_partition) == ("DPX", "NPS1")
    assert [
        (p.id, p.profile, p.memory_total_bytes, p.memory_free_bytes) for p in reading.device.partitions
    ] == [
        ("amd:0xab/0", "DPX", 4096, 3072),
        ("amd:0xab/1", "DPX", 4096, 3072),
    ]
    assert [(p.pid, p.partition) for p in reading.processes] == [(41, "amd:0xab/0"), (42, "amd:0xab/1")]
    assert [p.device_name for p in reading.device.partitions] == [None, None]  # no link tells


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("../../devices/platform/amdgpu_xcp_27/drm/renderD130", "amdgpu_xcp_27"),
        ("/sys/devices/platform/amdgpu_xcp_0/drm/renderD130", "amdgpu_xcp_0"),
        ("../../devices/platform/amdgpu_xcp.3/drm/renderD130", "amdgpu_xcp.3"),
        ("../../devices/pci0000:00/0000:00:01.0/0000:0a:00.0/drm/renderD130", None),
        ("../../devices/platform/simple-framebuffer.0/drm/renderD130", None),
        ("amdgpu_xcp_27", None),
    ],
)
def test_a_partition_is_named_by_the_platform_device_of_its_render_node(
    tmp_path: Path, target: str, name: str | None
) -> None:
    lay_out_gpu(tmp_path, {**HEALTHY, "unique_id": "ab"})
    write(tmp_path, {**kfd_node(1, 701, AT_09, 129), **kfd_node(2, 702, AT_09 | 1 << 28, 130)})
    write(tmp_path, {"sys/class/kfd/kfd/topology/generation_id": "1"})
    reader = reader_of(tmp_path)
    drm = tmp_path / "sys/class/drm"
    # The driver shows its nodes to the compute side first, so the links may come after a first look.
    [key] = reader.survey().keys
    assert [p.device_name for p in reader.read(key).device.partitions] == [None, None]
    (drm / "renderD129").symlink_to("../../devices/pci0000:00/0000:09:00.0/drm/renderD129")
    (drm / "renderD130").symlink_to(target)
    reader.survey()
    assert [p.device_name for p in reader.read(key).device.partitions] == [None, name]
