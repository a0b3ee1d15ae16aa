"""A cell in the output of another tool is not a message of this one."""

import pytest

from accelscope.parsing import ParseResult
from accelscope.vendors.amd.parse_rocm_smi import parse_rocm_json
from accelscope.vendors.ascend.parse_values import parse_board
from accelscope.vendors.furiosa.parse_tools import parse_info as parse_furiosa_info


def reason(parsed: ParseResult) -> str | None:
    assert parsed.devices == ()
    return parsed.error.reason if parsed.error else None


@pytest.mark.parametrize(
    "text",
    [
        "|ERR!  35C  P8   N/A / N/A | Not Supported | N/A  Default |\n",
        "Health Status                  : OK\nError Code                     : NA\n",
    ],
)
def test_a_cell_of_a_table_is_no_message_of_rocm_smi(text: str) -> None:
    assert reason(parse_rocm_json(text)) == "unrecognized"


@pytest.mark.parametrize(
    "text", ["GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 0 %\n", "fabric.health.access_timeout_recovery\n"]
)
def test_a_heading_or_the_name_of_a_field_is_no_message_of_furiosa_smi(text: str) -> None:
    assert reason(parse_furiosa_info(text, "furiosa-smi")) == "unrecognized"


def test_the_list_of_nvidia_smi_is_no_board_of_npu_smi() -> None:
    text = "==============NVSMI LOG==============\n\nGPU 00000000:01:00.0\n    Product Name    : NVIDIA X\n"
    assert reason(parse_board(text)) == "unrecognized"
