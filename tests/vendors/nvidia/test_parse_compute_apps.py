"""Parsing of `--query-compute-apps` CSV, with short examples."""

import pytest

from accelscope.model import Process, ProcessType
from accelscope.vendors.nvidia.parse_csv import parse_compute_apps

MIB = 2**20
TRAIN = Process(pid=7, device="nvidia:GPU-a", name="train", type=ProcessType.COMPUTE, memory_bytes=512 * MIB)


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a, 7, /opt/train, 512 MiB\n",
        "GPU-a, 7, /opt/train, 512",
        "\ufeffGPU-a,7,train --key=secret,512 MiB\r\n",
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 7, ./train, 512 MiB\n",
        "a banner, with, three, commas\n"
        "pid, used_memory [MiB], brand_new, gpu_uuid, name\n7, 512, ?, GPU-a, train\n",
        "gpu_uuid, pid, process_name, used_gpu_memory [KiB]\nGPU-a, 7, train, 524288\n",
    ],
)
def test_all_output_formats_give_the_same_process(text: str) -> None:
    parsed = parse_compute_apps(text)
    assert parsed.processes == (TRAIN,)
    assert (parsed.devices, parsed.error, parsed.rejected) == ((), None, ())


@pytest.mark.parametrize(
    ("fields", "line", "device", "partition"),
    [
        ("gpu_uuid,gpu_serial,gpu_bus_id,pid", "GPU-a, 123, 00000000:0C:00.0, 7", "nvidia:GPU-a", None),
        (
            "gpu_uuid,gpu_serial,gpu_bus_id,pid",
            "[N/A], 123, 00000000:0C:00.0, 7",
            "nvidia:0000:0c:00.0",
            None,
        ),
        ("gpu_serial,pid", "123, 7", "nvidia:123", None),
        ("gpu_serial,pid", "0, 7", None, None),
        ("gpu_serial,gpu_bus_id,pid", "[N/A], 00000000:0C:00.0, 7", "nvidia:0000:0c:00.0", None),
        ("gpu_uuid,pid", "MIG-b, 7", None, "nvidia:MIG-b"),
        ("pid", "7", None, None),
    ],
)
def test_the_device_is_identified_by_the_available_columns(
    fields: str, line: str, device: str | None, partition: str | None
) -> None:
    [process] = parse_compute_apps(line, fields.split(",")).processes
    assert (process.device, process.partition) == (device, partition)


@pytest.mark.parametrize("cell", ["[N/A]", "N/A", "[Not Supported]", "", "[Insufficient Permissions]"])
def test_absent_memory_is_not_zero(cell: str) -> None:
    parsed = parse_compute_apps(f"GPU-a, 7, train, {cell}\n")
    assert [process.memory_bytes for process in parsed.processes] == [None]
    assert parsed.rejected == ()


def test_a_name_may_contain_commas() -> None:
    [process] = parse_compute_apps(r"GPU-a, 7, C:\Tools\a, b, c.exe, 512 MiB").processes
    assert (process.name, process.memory_bytes) == ("a, b, c.exe", 512 * MIB)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GPU-a, [Not Supported], [Not Supported], [Not Supported]", "not_supported"),
        ("GPU-a, [N/A], train, 5 MiB", "not_supported"),
        ("GPU-a, x, train, 5 MiB", "not_a_row"),
        ("GPU-a, 7", "not_a_row"),
        ("GPU-a, 7, train, 5, 6", "not_a_row"),
        ("GPU-a, 7, train, 5 MiB, more", "not_a_row"),
        ("Failed to initialize NVML: Unknown Error", "driver_error"),
    ],
)
def test_a_bad_line_is_rejected_alone(line: str, reason: str) -> None:
    parsed = parse_compute_apps(f"GPU-a, 7, train, 512 MiB\n{line}\n")
    assert parsed.processes == (TRAIN,)
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [(line, reason)]
    assert parse_compute_apps(f"{line}\nGPU-a, 7, train, 512 MiB\n").processes == (TRAIN,)


def test_a_bad_cell_is_rejected_alone() -> None:
    parsed = parse_compute_apps("GPU-a, 7, train, lots\n")
    assert [(process.pid, process.memory_bytes) for process in parsed.processes] == [(7, None)]
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [
        ("used_memory: lots", "unreadable")
    ]


@pytest.mark.parametrize(
    "text", ["gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n", "No running processes found\n"]
)
def test_no_running_process_is_not_an_error(text: str) -> None:
    parsed = parse_compute_apps(text)
    assert (parsed.processes, parsed.error, parsed.rejected) == ((), None, ())


def test_a_list_of_finished_processes_is_rejected() -> None:
    parsed = parse_compute_apps(
        "gpu_uuid, pid, gpu_utilization [%], max_memory_usage [MiB]\nGPU-a, 7, 0 %, 5 MiB\n"
    )
    assert parsed.processes == ()
    assert parsed.error is not None
    assert parsed.error.reason == "unrecognized"


def test_a_message_instead_of_rows_is_the_error() -> None:
    parsed = parse_compute_apps(
        "WARNING: infoROM is corrupted at gpu 0000:0C:00.0\nFailed to initialize NVML: Unknown Error\n"
    )
    assert parsed.error is not None
    assert parsed.error.reason == "driver_error"


def test_another_number_of_columns_is_an_error() -> None:
    parsed = parse_compute_apps("7, GPU-a\n")
    assert parsed.error is not None
    assert parsed.error.reason == "column_mismatch"


def test_a_column_mismatch_is_reported_before_a_message() -> None:
    parsed = parse_compute_apps("Unable to determine the device handle for GPU0: GPU is lost\n7, 100\n")
    assert parsed.error is not None
    assert parsed.error.reason == "column_mismatch"


def test_a_masked_uuid_does_not_identify_a_device() -> None:
    masked = "GPU-00000000-0000-0000-0000-000000000000"
    header = "gpu_uuid, gpu_bus_id, pid, process_name, used_gpu_memory [MiB]"
    [by_address, by_nothing] = parse_compute_apps(
        f"{header}\n{masked}, 00000000:01:00.0, 7, a, 1 MiB\n{masked}, [N/A], 8, b, 1 MiB\n"
    ).processes
    assert (by_address.device, by_nothing.device) == ("nvidia:0000:01:00.0", None)
