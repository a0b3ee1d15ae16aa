"""Parsing of the table without options and of `--version`."""

import pytest

from accelscope.model import Device, HealthState
from accelscope.vendors.nvidia.parse_text import parse_table, parse_version

MIB = 2**20
OLD = """\
Mon Mar  2 10:00:00 2020
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    3 |
| N/A   43C    P8     9W /  70W |      0MiB / 15079MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Graphics Device     On   | 0000:05:00.0     Off |                  N/A |
| 20%   50C    P2    N/A /  N/A |     10MiB /  8119MiB |    100%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    1      4242      C   python                                        10MiB |
|    1      4243    C+G   ...iniconda3/envs/x/bin/python3                 N/A |
+-----------------------------------------------------------------------------+
"""
ROW = "|   0  NVIDIA X            Off  | 00000000:00:04.0 Off |                    0 |\n"
STATE = "| N/A   43C    P8     9W /  70W |      0MiB / 15079MiB |      0%      Default |\n"
PROCESSES = "| Processes: |\n| GPU GI CI PID Type Process name GPU Memory |\n|======|\n"


def only(text: str) -> Device:
    parsed = parse_table(text)
    assert parsed.error is None
    [device] = parsed.devices
    return device


def names(*titles: str) -> list[str | None]:
    rows = "".join(f"|  0  N/A  N/A  {pid}  C  {title}  5MiB |\n" for pid, title in enumerate(titles, 7))
    return [process.name for process in parse_table(ROW + STATE + PROCESSES + rows).processes]


NPU = """\
| npu-smi 22.0.0                       Version: 22.0.2                                       |
+-------------------+-----------------+------------------------------------------------------+
| NPU     Name      | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device    | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===================+=================+======================================================+
| 0       310P3     | OK              | 16.7         57                0    / 0              |
| 0       0         | 0000:5E:00.0    | 0            932  / 21534                            |
+===================+=================+======================================================+
"""


@pytest.mark.parametrize(
    "text", [NPU, NPU.split("\n", 1)[1], NPU.replace("NPU ", "xyz ", 1).replace("Chip ", "xyz ", 1)]
)
def test_a_table_of_npu_smi_is_rejected(text: str) -> None:
    parsed = parse_table(text)
    assert parsed.error is not None
    assert (parsed.error.reason, parsed.devices) == ("unrecognized", ())


def test_a_table_of_npu_smi_after_that_of_nvidia_smi_is_ignored() -> None:
    assert parse_table(OLD + NPU).devices == parse_table(NPU + OLD).devices == parse_table(OLD).devices


def test_a_gpu_has_two_lines_before_driver_450() -> None:
    parsed = parse_table(OLD)
    assert (parsed.error, parsed.rejected) == (None, ())
    first, second = parsed.devices
    assert (first.id, first.index, first.model) == ("nvidia:0000:00:04.0", 0, "Tesla T4")
    assert (first.driver_version, first.ecc_enabled, first.ecc[0].count) == ("418.67", True, 3)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (0, 15079 * MIB)
    assert (first.utilization_ratio, first.power_watts, first.power_limit_watts) == (0.0, 9.0, 70.0)
    assert (second.id, second.persistence_mode) == ("nvidia:0000:05:00.0", True)
    assert (second.utilization_ratio, second.fans[0].speed_ratio) == (1.0, 0.2)
    assert (second.power_watts, second.power_limit_watts) == (None, None)
    assert [(p.pid, p.device, p.name, p.memory_bytes) for p in parsed.processes] == [
        (4242, second.id, "python", 10 * MIB),
        (4243, second.id, "python3", None),
    ]


def test_column_widths_do_not_matter() -> None:
    squeezed = "\n".join(" ".join(line.split()) for line in OLD.splitlines())
    assert parse_table(squeezed).devices == parse_table(OLD).devices
    assert parse_table(OLD.replace("\n", " \r\n")).devices == parse_table(OLD).devices


def test_the_last_table_of_a_looping_tool_is_used() -> None:
    later = OLD.replace("43C", "44C").replace("4242", "4244")
    parsed = parse_table(OLD + later)
    assert [device.temperature_celsius for device in parsed.devices] == [44.0, 50.0]
    assert [process.pid for process in parsed.processes] == [4244, 4243]


@pytest.mark.parametrize(
    ("cells", "field", "reason"),
    [
        ("|ERR!   43C    P8     9W /  70W | 0MiB / 15079MiB | 0% Default |", "fans", "driver_error"),
        ("| N/A   43C    P8   ERR! /  70W | 0MiB / 15079MiB | 0% Default |", "power_watts", "driver_error"),
        (
            "| N/A   43C    P8     9W / N/A  | 0MiB / 15079MiB | 0% Default |",
            "power_limit_watts",
            "not_supported",
        ),
        (
            "| N/A   43C    P8     9W /  70W | Not Supported | 0% Default |",
            "memory_used_bytes",
            "not_supported",
        ),
        (
            "| N/A   43C    P8     9W /  70W | 0MiB / 15079MiB | ERR! Default |",
            "utilization_ratio",
            "driver_error",
        ),
    ],
)
def test_an_unreadable_cell_is_absent_with_its_reason(cells: str, field: str, reason: str) -> None:
    device = only(f"{ROW}{cells}\n")
    assert {absence.field: absence.reason.value for absence in device.absent}[field] == reason


def test_a_lost_gpu_next_to_the_table_is_listed() -> None:
    message = "Unable to determine the device handle for GPU0000:02:00.0: GPU is lost."
    parsed = parse_table(f"{message}\n{ROW}{STATE}")
    assert [(device.id, device.health.state) for device in parsed.devices] == [
        ("nvidia:0000:00:04.0", HealthState.UNKNOWN),
        ("nvidia:0000:02:00.0", HealthState.LOST),
    ]


def test_only_the_name_of_a_program_is_kept() -> None:
    assert names(
        "/usr/bin/python3 train.py --token hunter2",
        "...data/hunter2 --token hunter2",
        "...ken hunter2",
        "...hunter2",
        "...ogram Files\\NVIDIA Share.exe",
        ".../lib/xorg/Xorg",
    ) == ["python3", None, None, None, "NVIDIA Share.exe", "Xorg"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("No devices were found\n", "no_devices"),
        ("hello\nworld\n", "unrecognized"),
        ("0, GPU-a, NVIDIA X\n", "unrecognized"),
    ],
)
def test_other_text_is_not_a_table(text: str, reason: str) -> None:
    parsed = parse_table(text)
    assert parsed.error is not None
    assert (parsed.error.reason, parsed.devices) == (reason, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVIDIA-SMI version  : 595.71.05\nNVML version        : 595.71\n"
            "DRIVER version      : 595.71.05\nCUDA Version        : 13.2\n",
            {"nvidia_smi": "595.71.05", "nvml": "595.71", "driver": "595.71.05", "cuda": "13.2"},
        ),
        (
            "NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\n"
            'DRIVER version      : Deprecated, see "KMD version" instead\n'
            'CUDA version        : Deprecated, see "CUDA UMD version" instead\n'
            "KMD version         : 610.57.04\nCUDA UMD version    : 13.3\n",
            {"nvidia_smi": "610.57.04", "nvml": "610.57", "driver": "610.57.04", "cuda": "13.3"},
        ),
        (
            "KMD version : 610.2\nDRIVER version : 609.1\nCUDA UMD version : 13.3\nCUDA version : N/A\n",
            {"driver": "610.2", "cuda": "13.3"},
        ),
    ],
)
def test_versions_are_read(text: str, expected: dict[str, str]) -> None:
    parsed = parse_version(text)
    assert (dict(parsed.versions), parsed.error, parsed.rejected) == (expected, None, ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("hello\n", "unrecognized"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "driver_not_loaded",
        ),
        ("DRIVER version : soon\n", "unrecognized"),
    ],
)
def test_text_without_versions_is_an_error(text: str, reason: str) -> None:
    parsed = parse_version(text)
    assert parsed.error is not None
    assert parsed.error.reason == reason
