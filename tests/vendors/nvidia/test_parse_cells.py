"""Cells: markers of absent values, and values in the base unit of the model."""

from collections.abc import Callable

import pytest

from accelscope.model import ProcessType
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.cells import process_type, program_name

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[N/A]", "not_supported"),
        ("N/A", "not_supported"),
        ("n/a", "not_supported"),
        (" [Not Supported] ", "not_supported"),
        ("Not Supported", "not_supported"),
        ("[Unknown Error]", "driver_error"),
        ("ERR!", "driver_error"),
        ("[GPU is lost]", "lost"),
        ("GPU is lost.", "lost"),
        ("[GPU requires reset]", "reset_required"),
        ("[Insufficient Permissions]", "no_permission"),
        ("[Requested functionality has been deprecated]", "deprecated"),
        ('Deprecated, see "KMD version" instead', "deprecated"),
        ("[Function Not Found]", "not_known"),
        ("Timeout", "timeout"),
        ("-", "no_sample"),
        ("", "no_sample"),
        ("   ", "no_sample"),
        ("0", None),
        ("0 %", None),
        ("None", None),
        ("[REDACTED]", None),
        ("NVIDIA H100", None),
        ("N/A" * 1000, None),
    ],
)
def test_a_marker_gives_the_reason_of_absence(text: str, reason: str | None) -> None:
    assert cells.absence(text) == reason


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (cells.memory, "81559 MiB", 81559 * MIB),
        (cells.memory, "81559", 81559 * MIB),
        (cells.memory, " 81559MiB ", 81559 * MIB),
        (cells.memory, "512 MB", 512 * MIB),
        (cells.memory, "512 kB", 512 * 1024),
        (cells.memory, "1.5 GiB", 3 * 2**29),
        (cells.memory, "7 B", 7),
        (cells.memory, "0 MiB", 0),
        (cells.memory, "-1 MiB", None),
        (cells.memory, "12 Mi", None),
        (cells.memory, "12 apples", None),
        (cells.memory, "9" * 20, None),
        (cells.memory, "9" * 5000, None),
        (cells.memory, "nan", None),
        (cells.ratio, "100 %", 1.0),
        (cells.ratio, "7", 0.07),
        (cells.ratio, "20.3 %", 0.203),
        (cells.ratio, "104 %", 1.04),
        (cells.ratio, "-1 %", None),
        (cells.ratio, "4294967295 %", None),
        (cells.ratio, "1e3", None),
        (cells.watts, "631.95 W", 631.95),
        (cells.watts, "66.84", 66.84),
        (cells.watts, "1500 mW", 1.5),
        (cells.watts, "inf W", None),
        (cells.hertz, "1980 MHz", 1.98e9),
        (cells.hertz, "1980", 1.98e9),
        (cells.hertz, "1.2 GHz", 1.2e9),
        (cells.celsius, "59", 59.0),
        (cells.celsius, "59 C", 59.0),
        (cells.celsius, "59°C", 59.0),
        (cells.celsius, "-8 C", -8.0),
        (cells.celsius, "65535", None),
        (cells.volts, "912.500 mV", 0.9125),
        (cells.bytes_per_second, "4000 KB/s", 4e6),
        (cells.bytes_per_second, "0 KB/s", 0.0),
        (cells.count, "3", 3),
        (cells.count, "3.5", None),
        (cells.count, "0x3", None),
        (cells.count, "٣", None),
        (cells.lanes, "16x", 16),
        (cells.lanes, "16", 16),
        (cells.performance_state, "P8", 8),
        (cells.performance_state, "P15", 15),
        (cells.performance_state, "P16", None),
        (cells.performance_state, "8", None),
        (cells.flag, "Enabled", True),
        (cells.flag, "Not Active", False),
        (cells.flag, "Inactive", False),
        (cells.flag, "Yes", True),
        (cells.flag, "maybe", None),
        (cells.mask, "0x00000000000001FF", 0x1FF),
        (cells.mask, "1FF", None),
        (cells.uuid, "GPU-xxxx-masked", "GPU-xxxx-masked"),
        (cells.uuid, "GPU 0", None),
        (cells.uuid, "GPU-12\ufffd4", None),
        (cells.uuid, "0", None),
        (cells.architecture, "Ada Lovelace", "ada"),
        (cells.architecture, " ", None),
    ],
)
def test_a_value_is_converted_to_the_base_unit(
    read: Callable[[str], object], text: str, value: object
) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("/usr/bin/python3", "python3"),
        ("./train", "train"),
        ("python", "python"),
        ("/opt/x/tool --token=secret /etc/passwd", "tool"),
        ("python serve.py --key hunter2", "python"),
        ("ray::Worker.run secret", "ray::Worker.run"),
        (r"C:\Program Files\Some Tool\Some Tool.exe", "Some Tool.exe"),
        (r'"C:\Program Files\Some Tool\tool.EXE" --password=p', "tool.EXE"),
        ("C:/Program Files/Some Tool/tool.exe -k secret", "tool.exe"),
        (r"\\server\share\a b\tool -k secret", "tool"),
        ("/usr/bin/wine /home/a/game.exe --key=secret", "wine"),
        ("Some Tool.exe", "Some Tool.exe"),
        ("TOKEN=hunter2", None),
        ("TOKEN=hunter2 KEY=x /usr/bin/python3 train.py", "python3"),
        ("[Not Found]", None),
        ("[Insufficient Permissions]", None),
        ("-", None),
        ("", None),
        ("/", None),
        ('""', None),
    ],
)
def test_a_program_name_has_no_arguments(title: str, name: str | None) -> None:
    assert program_name(title) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sglang::schedul   ", "sglang::schedul"),
        ("7zip", "7zip"),
        # What the cut left of `.exe` may as well be an argument.
        ("NVIDIA Overlay.", "NVIDIA"),
        ("NVIDIA Share.ex", "NVIDIA"),
        ("python3 -k abc.e", "python3"),
        ("python3 secret.e", "python3"),
        ("python3 -k ab.ex", "python3"),
        ("python3 -k a.exe", "python3"),
        ("winlogon.e", "winlogon.e"),
        ("NVIDIA Share.exe", "NVIDIA Share.exe"),
        ("chrome --type=gp", "chrome"),
        ("java -Dkey=se", "java"),
        ("python train.py", "python"),
        ("psql hunter2", "psql"),
        ("curl token=hunt", "curl"),
        ("run my.secret.", "run"),  # too short to be a name that was cut
        ("TOKEN=hunter2 sh", "sh"),
        ("sh /run/secret", "sh"),
        ("/usr/lib/xorg/Xo", "Xo"),
        ("-", None),
        ("", None),
    ],
)
def test_a_command_of_pmon_is_reduced_to_the_program_name(command: str, name: str | None) -> None:
    assert program_name(command) == name


@pytest.mark.parametrize(
    ("letters", "kind", "mps"),
    [
        ("C", ProcessType.COMPUTE, None),
        ("G", ProcessType.GRAPHICS, None),
        ("C+G", ProcessType.BOTH, None),
        ("M", ProcessType.COMPUTE, True),
        ("M+C", ProcessType.COMPUTE, True),
        ("-", None, None),
        ("N/A", None, None),
    ],
)
def test_letters_give_type_and_mps_of_a_process(
    letters: str, kind: ProcessType | None, mps: bool | None
) -> None:
    assert process_type(letters) == (kind, mps)


@pytest.mark.parametrize("letters", ["X", "C+X", "C G", "compute"])
def test_other_letters_are_rejected(letters: str) -> None:
    assert process_type(letters) is None
