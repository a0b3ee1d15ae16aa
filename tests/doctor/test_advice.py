"""Every vendor has advice for each reason of its reader and for each health reason."""

from typing import TYPE_CHECKING

import pytest

from accelscope.doctor.check import error
from accelscope.doctor.examination import Report, text
from accelscope.doctor.vendors import examination_of
from accelscope.model import Vendor

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

# Reasons of every reader, and those that doctor itself uses.
COMMON = [
    *("driver_absent", "library_absent", "library_missing", "no_permission", "driver_error", "timeout"),
    *("deadline", "lost", "not_shown", "missing", "unheld", "no_devices", "internal"),
    *("tool_missing", "tool_timeout", "tool_stuck", "tool_killed", "tool_not_started"),
]
REASONS = {
    Vendor("nvidia"): [
        *("library_unusable", "binding_missing", "driver_not_loaded", "driver_reloaded", "version_mismatch"),
        *("reset_required", "insufficient_power"),
    ],
    Vendor("amd"): [
        *("driver_not_loaded", "tool_failed", "suspended", "not_ready"),
        *("unrecognized", "truncated", "empty", "tool_output_too_big"),
    ],
    Vendor("ascend"): [
        *("driver_in_use", "upgrading", "not_ready", "driver_timeout", "query_failed", "other_tool"),
        *("unrecognized", "empty", "incomplete", "tool_output_too_big"),
    ],
    Vendor("furiosa"): ["driver_not_loaded", "version_mismatch"],
}
# Health reasons, and a word of the advice.
HEALTH = {
    Vendor("nvidia"): {
        "a memory row could not be remapped: the board needs replacing": "board replaced",
        "the driver asks for a reset of the GPU": "--gpu-reset",
        "the driver asks for a reboot of the node": "reboot it",
        "XID 48, 63 in the last ten minutes": "dmesg",
        "memory rows wait for a GPU reset to be remapped": "spare rows",
        "uncorrected memory errors since the driver was loaded": "Jobs may have failed",
        "slowed down by hardware: heat or power supply": "fans",
        "slowed down by the driver: heat": "fans",
        "the driver asks to recover the IMEX domain": "nvidia-imex",
        "the driver answers 4 of 4 questions with an error": "--gpu-reset",
    },
    Vendor("amd"): {
        "3 bad pages of memory could not be retired: the board needs replacing": "board replaced",
        "2 bad pages of memory wait for a reset to be retired": "--gpureset",
        "uncorrectable errors in the last ten minutes: umc.ue": "Jobs may have failed",
        "the links to other GPUs have errors: X": "amd-smi xgmi",
        "slowed down by heat or its supply: prochot": "fans",
        "101 °C: at 100 °C it slows itself down": "fans",
        "the driver answers nothing for now: it is resetting the GPU": "reset failed",
    },
    Vendor("ascend"): {
        "the driver reports Warning": "it works on",
        "the driver reports Alarm: hot": "replace the board",
        "the driver reports Critical": "board replaced",
    },
    Vendor("furiosa"): {
        "the driver says that the card is not alive": "firmware",
        "axi_post_error in the last ten minutes": "slot",
        "slowed down by hardware: thermal_slowdown": "fans",
        "neither driver nor tool says whether the card is alive": "`furiosa-smi status`",
    },
}


@pytest.mark.parametrize("environ", [{}, POD], ids=["node", "pod"])
@pytest.mark.parametrize("vendor", list(Vendor))
def test_every_reason_has_advice_that_fits_80_columns(
    node: "NodeFolder", vendor: Vendor, environ: dict[str, str]
) -> None:
    subject = node.subject(environ=environ)
    advice = examination_of(vendor).advice
    for reason in (*COMMON, *REASONS[vendor], *HEALTH[vendor]):
        found = advice(reason, subject)
        assert found != advice("unknown", subject), reason
        page = text(Report(version="1", node="n", findings=((vendor.value, error("a", "b", found)),)))
        assert max(map(len, page.splitlines())) <= 80, reason


@pytest.mark.parametrize("vendor", list(Vendor))
def test_every_health_reason_has_its_advice(node: "NodeFolder", vendor: Vendor) -> None:
    advice, subject = examination_of(vendor).advice, node.subject()
    assert [health for health, word in HEALTH[vendor].items() if word not in advice(health, subject)] == []
