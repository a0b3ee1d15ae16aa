"""Messages that nvidia-smi prints instead of values, and their reasons."""

import pytest

from accelscope.parsing import sources
from accelscope.vendors.nvidia import cells

SENTENCES = [
    ("No devices were found", "no_devices"),
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that …",
        "driver_not_loaded",
    ),
    ("Failed to initialize NVML: Driver/library version mismatch", "version_mismatch"),
    ("Failed to initialize NVML: Driver Not Loaded", "driver_not_loaded"),
    ("Failed to initialize NVML: Unknown Error", "driver_error"),
    ("Failed to initialize NVML: Insufficient Permissions", "no_permission"),
    ("Failed to initialize NVML: GPU access blocked by the operating system", "no_permission"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please …", "library_missing"),
    ("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot …", "device_lost"),
    ("Unable to determine the device handle for GPU0000:02:00.0: Unknown Error", "device_lost"),
    ("Unable to determine the device handle for gpu 0000:02:00.0: GPU requires reset", "reset_required"),
    ("Unable to determine the device handle for GPU1: 0000:02:00.0: GPU is lost.", "device_lost"),
    ("Unable to determine the device handle for GPU3: Unknown Error", "device_lost"),
    ("Unable to determine the device handle for GPU 0000:02:00.0: Insufficient Permissions", "no_permission"),
    (
        "Unable to determine the device handle for GPU 0000:02:00.0: Unable to communicate with GPU because "
        "it is insufficiently powered.",
        "insufficient_power",
    ),
    ('Field "power.draw.sideways" is not a valid field to query.', "unknown_field"),
    ('ERROR: Field "x" is not a valid field to query.', "unknown_field"),
    ("Not supported on the device(s)", "not_supported"),
    ("Failed to process command line", "not_supported"),
    ("Option --query-gpux is not recognized. Please run 'nvidia-smi -h'.", "unknown_option"),
    ("bash: line 1: nvidia-smi: command not found", "tool_missing"),
    ('exec: "nvidia-smi": executable file not found in $PATH', "tool_missing"),
    ("'nvidia-smi' is not recognized as an internal or external command,", "tool_missing"),
]


NVIDIA_SOURCES = [name for name in sources() if name.startswith("nvidia-smi-")]


@pytest.mark.parametrize(("sentence", "reason"), SENTENCES)
def test_a_message_has_a_reason(sentence: str, reason: str) -> None:
    error = cells.first_error(f"\ufeff\r\n  {sentence}\r\nsomething else\r\n")
    assert error is not None
    assert (error.reason, error.text) == (reason, sentence)


@pytest.mark.parametrize("source", NVIDIA_SOURCES)
@pytest.mark.parametrize(("sentence", "reason"), SENTENCES)
def test_every_source_returns_the_reason_of_a_message(source: str, sentence: str, reason: str) -> None:
    parsed = sources()[source].parse(f"{sentence}\n", None)
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert parsed.processes == ()


@pytest.mark.parametrize("source", NVIDIA_SOURCES)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("\ufeff \r\n\t\n", "empty"),
        ("Segmentation fault\n", "unrecognized"),
        ("{}", "unrecognized"),
    ],
)
def test_other_text_is_an_error(source: str, text: str, reason: str) -> None:
    parsed = sources()[source].parse(text, None)
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert (parsed.devices, parsed.processes) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        "0, GPU-1, [GPU is lost], [Unknown Error]",
        "[GPU is lost], 5",
        "    0   1234   C   5   5   -   -   unable",
        "GPU 0: NVIDIA A100 (UUID: GPU-1)",
        "",
    ],
)
def test_a_row_is_not_a_message(line: str) -> None:
    assert cells.parse_message(line) is None


def test_the_unknown_field_is_returned() -> None:
    assert (
        cells.unknown_field('Field "clocks.sideways" is not a valid field to query.\n\n') == "clocks.sideways"
    )
    assert cells.unknown_field("No devices were found") is None


def test_a_warning_is_not_an_error() -> None:
    assert cells.first_error("WARNING: infoROM is corrupted at gpu 0000:02:00.0\n") is None
