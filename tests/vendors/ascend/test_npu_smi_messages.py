"""Messages that npu-smi prints instead of values, and their reasons."""

import pytest

from accelscope.parsing import sources
from accelscope.vendors.ascend.key_values import driver_is_incomplete

NOISE = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
SOURCES = [name for name in sources() if name.startswith("npu-smi")]

MESSAGES = [
    ("dcmi module initialize failed. ret is -8005", "driver_error"),
    ("dcmi module initialize failed. ret is -8002", "no_permission"),
    ("dcmi module initialize failed. ret is -8008", "no_devices"),
    ("dcmi module initialize failed. ret is -8012", "not_ready"),
    ("dcmi module initialize failed. ret is -8017", "upgrading"),
    ("dcmi module initialize failed. ret is -8010", "driver_error"),
    ("dcmi model initialized failed, because the device is used. ret is -8020", "driver_in_use"),
    ("npu get board type failed. ret is -9005", "driver_error"),
    ("Failed to execute npu-smi info. ret is -8006.", "driver_timeout"),
    ('Failed to query "ecc" result.', "query_failed"),
    ("This device does not support querying ecc.", "not_supported"),
    ("This command cannot be executed on a VM or container.", "not_supported"),
    ("There is no NPU card on this server.", "no_devices"),
    ("There is no NPU chip on this card.", "no_devices"),
    ("Error parameter of -t", "unknown_option"),
    ("Command or option is not found.\nUsage: npu-smi <Command|-h|-v>", "unknown_option"),
    ("bash: npu-smi: command not found", "tool_missing"),
    ("sh: 1: npu-smi: not found", "tool_missing"),
    ("bash: /usr/local/sbin/npu-smi: Permission denied", "no_permission"),
    (
        "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file",
        "library_missing",
    ),
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("text", "reason"), MESSAGES)
def test_a_message_instead_of_values_has_a_reason(source: str, text: str, reason: str) -> None:
    for around in (text, text + "\n", NOISE * 2 + text + "\n", f"\ufeff{text}\r\n"):
        parsed = sources()[source].parse(around, None)
        assert parsed.devices == ()
        assert parsed.processes == ()
        assert parsed.error is not None
        assert parsed.error.reason == reason
        assert parsed.error.text == text.split("\n", maxsplit=1)[0]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "  \r\n\t\n"])
def test_no_output_is_reported_as_empty(source: str, text: str) -> None:
    parsed = sources()[source].parse(text, None)
    assert parsed.error is not None
    assert parsed.error.reason == "empty"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "text",
    [
        "npu-smi 0.3 (AMD XDNA driver 2.18)\n\nNPU 0: RyzenAI-npu4  usage 3 %\n",
        "+------+\n| AMD NPU-SMI   XDNA 2.19 |\n+------+\n| 0 | NPU Strix | 12 % |\n+------+\n",
    ],
)
def test_amds_npu_smi_is_recognised_by_its_banner(source: str, text: str) -> None:
    parsed = sources()[source].parse(text, None)
    assert parsed.devices == ()
    assert parsed.error is not None
    assert parsed.error.reason == "other_tool"
    assert "AMD" in parsed.error.text


@pytest.mark.parametrize("source", SOURCES)
def test_other_text_is_reported_as_unrecognized(source: str) -> None:
    parsed = sources()[source].parse("hello\nworld\n", None)
    assert parsed.error is not None
    assert parsed.error.reason == "unrecognized"
    assert "hello" in parsed.error.text


def test_a_message_between_values_is_rejected() -> None:
    text = "NPU ID : 0\nAicore Usage Rate(%) : 5\nChip ID : 0\nFailed to get device usages information.\n"
    parsed = sources()["npu-smi-usages"].parse(text, None)
    assert len(parsed.devices) == 1
    assert [r.reason for r in parsed.rejected] == ["query_failed"]


def test_the_warning_about_an_incomplete_driver_is_recognised() -> None:
    assert driver_is_incomplete("+===+\n[WARNING]The driver package may not be completely installed, which\n")
    assert not driver_is_incomplete("+===+\n")
