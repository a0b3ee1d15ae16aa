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
        "a memory row could not be remapped": "board replaced",
        "the driver requests a GPU reset": "--gpu-reset",
        "the driver requests a node reboot": "reboot it",
        "XID 48 (uncorrectable memory error)": "dmesg",
        "row remapping is pending until the next GPU reset": "spare rows",
        "uncorrected memory errors since the driver was loaded": "Jobs may have failed",
        "throttled by hardware: temperature or power": "fans",
        "throttled by driver: temperature": "fans",
        "the driver requests recovery of the IMEX domain": "nvidia-imex",
        "the driver returned an error for 4 of 4 values": "--gpu-reset",
    },
    Vendor("amd"): {
        "memory pages could not be retired: 3 bad memory pages": "board replaced",
        "memory pages wait for retirement at the next GPU reset: 2 bad memory pages": "--gpureset",
        "uncorrectable errors since the driver was loaded": "Jobs may have failed",
        "RAS umc.ue (memory, uncorrectable error)": "Jobs may have failed",
        "XGMI link errors: X": "amd-smi xgmi",
        "throttled by heat or power supply: prochot": "fans",
        "above the slowdown temperature: 101 °C, limit 100 °C": "fans",
        "the driver returns no data; the GPU is being reset": "reset failed",
    },
    Vendor("ascend"): {
        "the driver reports Warning": "can still be used",
        "the driver reports Alarm: hot": "replace the board",
        "the driver reports Critical": "board replaced",
    },
    Vendor("furiosa"): {
        "the driver reports that the card is not alive": "firmware",
        "axi_post_error (failed write on the card's internal bus)": "slot",
        "slowed down by hardware: thermal_slowdown": "fans",
        "neither the driver nor a tool reports whether the card is alive": "`furiosa-smi status`",
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
