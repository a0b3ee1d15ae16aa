"""NVIDIA's error codes: XIDs of GPUs.

Severity and clearing follow the immediate action in NVIDIA's catalogue. A GPU that must be reset before it
can be used again, or a machine that must be restarted, is critical. If the application must be restarted
because of the hardware, that is a warning; because of its own error or for no stated reason, information.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from accelscope.vendors.common.error_codes import ErrorCode, Handling

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"

_DEBUG = "Debug the application, for example with compute-sanitizer; the GPU is healthy"
_RESET = "Drain the GPU and reset it; if the error returns, have the board replaced"
_RESTART = "Restart the application; report the error to NVIDIA if it returns"
_NOTHING = "None needed; report the error to NVIDIA if it occurs often"

_APPLICATION = Handling("info", "application", _DEBUG)
_ENGINE = Handling("info", None, _RESTART)
_DRIVER = Handling("info", "driver", _NOTHING)
_NOTE = Handling("info", None, _NOTHING)
_BROKEN = Handling("critical", "hardware", _RESET, "reset")
_STUCK = Handling("critical", None, _RESET, "reset")
_FIRMWARE = Handling(
    "critical",
    "driver",
    "Drain the GPU and reset it; if the error returns, power-cycle the node and update the driver",
    "reset",
)
_LINK = Handling(
    "warning",
    "hardware",
    "Look up the details of the kernel log in NVIDIA's table; reset the GPU if they are fatal",
)
_LINK_DOWN = Handling(
    "critical",
    "hardware",
    "Drain the GPU and reset it; check the other end of the link, which may be the one that failed",
    "reset",
)
_SUPPORT = Handling("warning", None, "Report the error to NVIDIA with the output of nvidia-bug-report.sh")
_CONFIDENTIAL = Handling("warning", None, "Check the configuration of confidential computing")

_XIDS: Mapping[int, tuple[str, Handling]] = MappingProxyType(
    {
        8: ("GPU stopped processing", _ENGINE),
        11: ("invalid or corrupted command buffer", _APPLICATION),
        13: ("graphics engine exception", _APPLICATION),
        25: ("invalid or illegal command buffer", _APPLICATION),
        31: ("invalid memory access of an application", _APPLICATION),
        # The catalogue asks to restart the application, and names the PCIe link as the usual cause.
        32: (
            "corrupted data between driver and GPU",
            Handling(
                "warning", "hardware", "Restart the application; if the error returns, check the PCIe link"
            ),
        ),
        37: ("driver firmware error", _APPLICATION),
        38: ("driver firmware error", _DRIVER),
        **dict.fromkeys((39, 40, 41), ("copy engine exception", _ENGINE)),
        43: ("fault of an application", _APPLICATION),
        44: ("graphics engine fault during context switch", _NOTE),
        45: (
            "application removed",
            Handling(
                "info",
                "application",
                "None if the application was stopped; else follow the other XID of the same time",
            ),
        ),
        46: ("GPU stopped processing", _STUCK),
        48: ("uncorrectable memory error", _BROKEN),
        54: (
            "auxiliary power is not connected",
            Handling("critical", "hardware", "Power the node off and check the GPU's power cables", "reboot"),
        ),
        60: ("video processor exception", _ENGINE),
        62: ("internal microcontroller halted", _STUCK),
        63: (
            "row remapping or page retirement recorded",
            Handling("info", "hardware", "Reset the GPU at the next maintenance, which activates spare rows"),
        ),
        64: ("row remapping or page retirement failed", _BROKEN),
        **dict.fromkeys((66, 67), ("illegal access by the driver", _DRIVER)),
        68: ("video decoder exception", _ENGINE),
        69: ("graphics engine class error", _APPLICATION),
        **dict.fromkeys((70, 71, 72, 75, 76, 77, 85), ("copy engine error", _ENGINE)),
        74: ("NVLink error", _LINK_DOWN),
        78: (
            "virtual GPU failed to start",
            Handling(
                "warning", "driver", "Update driver and firmware; check that host and guest versions match"
            ),
        ),
        79: (
            "GPU fell off the bus",
            Handling(
                "critical",
                "hardware",
                "Drain the node and reboot it; if the GPU stays lost, check card, power cable and cooling",
                "reboot",
            ),
        ),
        80: ("corrupted data sent to the GPU", _APPLICATION),
        **dict.fromkeys((82, *range(99, 106)), ("JPEG engine error", _ENGINE)),
        **dict.fromkeys((83, 84, 88, 89, 96, 97, 98), ("video decoder error", _ENGINE)),
        **dict.fromkeys((86, 139), ("optical flow engine error", _ENGINE)),
        92: (
            "high rate of corrected memory errors",
            Handling("info", "hardware", "None needed; watch the GPU for uncorrectable memory errors"),
        ),
        93: (
            "write limit of the InfoROM reached",
            Handling("info", None, "None needed; the limit was set with nvflash and can be cleared with it"),
        ),
        94: (
            "contained memory error",
            Handling(
                "warning",
                "hardware",
                "Restart the affected application; reset the GPU at the next maintenance",
            ),
        ),
        95: ("uncontained memory error", _BROKEN),
        **dict.fromkeys((106, 107), ("test message of the board management", _NOTE)),
        108: ("remote NVLink translation error", _NOTE),
        # The catalogue asks for a reset, the maintainers' device plugin for Kubernetes ignores the error as
        # an application's. If a reset is needed, the driver also requests it, which is critical.
        109: (
            "context switch timeout",
            Handling("warning", None, "Restart the application; reset the GPU if the error returns"),
        ),
        110: (
            "security fault",
            Handling(
                "critical",
                "hardware",
                "Undo recent hardware changes and power-cycle the node; if it returns, replace the board",
                "reset",
            ),
        ),
        119: ("GPU firmware (GSP) does not answer", _FIRMWARE),
        120: ("GPU firmware (GSP) error", _FIRMWARE),
        121: (
            "corrected errors on the link to the CPU",
            Handling(
                "info",
                "hardware",
                "None needed; a reset of the GPU at the next maintenance retrains the link",
            ),
        ),
        **dict.fromkeys(range(126, 136), ("copy engine error", _ENGINE)),
        136: ("NVLink training failed", _LINK_DOWN),
        137: ("invalid memory access over NVLink", _APPLICATION),
        140: ("uncorrectable memory error that was not contained", _BROKEN),
        141: ("CUDA fast path error", _NOTE),
        142: ("video encoder error", _SUPPORT),
        143: ("GPU failed to initialise", _STUCK),
        # Fatal or not by details that only the kernel log has.
        144: ("NVLink error (SAW)", _LINK),
        145: ("NVLink error (RLW)", _LINK),
        146: ("NVLink error (TLW)", _LINK),
        147: ("NVLink error (TREX)", _LINK),
        148: ("NVLink error (NVLPW_CTRL)", _LINK),
        149: ("NVLink error (NETIR)", _LINK),
        150: ("NVLink error (MSE)", _LINK),
        151: (
            "key rotation error",
            Handling("critical", None, "Restart the virtual machine of the GPU", "reboot"),
        ),
        **dict.fromkeys((152, 153), ("deep learning accelerator error", _NOTE)),
        154: (
            "recovery action changed",
            Handling("info", None, "Follow the recovery action that the driver reports"),
        ),
        155: (
            "NVLink switched off by software",
            Handling("warning", "driver", "Find out why the link was switched off; reset the GPU", "reset"),
        ),
        156: (
            "defective resource taken out of use",
            Handling("warning", "hardware", "Drain the GPU and reset it to complete the repair", "reset"),
        ),
        157: (
            "defective resource could not be taken out of use",
            Handling("warning", "hardware", "The GPU can still be used; contact NVIDIA, as no spare is left"),
        ),
        158: ("fatal timeout of the GPU", _STUCK),
        159: ("error on the link to the CPU", _SUPPORT),
        160: ("memory channel taken out of use", _NOTE),
        161: ("memory channel could not be taken out of use", _NOTE),
        162: ("power smoothing on again", _NOTE),
        163: (
            "power smoothing switched off",
            Handling("info", "environment", "Check cooling; reload the driver if it was a timeout"),
        ),
        164: (
            "power smoothing near the end of its life",
            Handling("info", "hardware", "Plan a replacement if the site needs power smoothing"),
        ),
        165: (
            "power smoothing at the end of its life",
            Handling("warning", "hardware", "Replace the GPU if the site needs power smoothing"),
        ),
        166: ("unencrypted NVLink traffic before its configuration", _CONFIDENTIAL),
        167: ("fatal PCIe timeout", _STUCK),
        168: (
            "memory errors in the protected region",
            Handling("warning", "hardware", "Enable ECC, or reboot the node", "reboot"),
        ),
        169: ("internal security microcontroller halted", _STUCK),
        170: ("NVLink interrupt in confidential computing", _CONFIDENTIAL),
        171: ("uncorrectable DRAM error", _BROKEN),
        172: ("uncorrectable SRAM error", _BROKEN),
    }
)
_LAST_XID = 172
_UNUSED = Handling("warning", None, "Look the number up in NVIDIA's document for older GPUs")
_UNKNOWN = Handling("warning", None, "Look the number up in NVIDIA's document")


def error_code(code: str) -> ErrorCode | None:
    """None: not a number, so it is no XID."""
    if not code.isdecimal():
        return None
    number = int(code)
    if number in _XIDS:
        meaning, handling = _XIDS[number]
        return handling.of(code, meaning, CATALOGUE)
    if 0 < number <= _LAST_XID:
        return _UNUSED.of(code, "not used by A100 and newer GPUs", CATALOGUE)
    return _UNKNOWN.of(code, "not in the catalogue", CATALOGUE)


def documented() -> Iterator[ErrorCode]:
    for number, (meaning, handling) in _XIDS.items():
        yield handling.of(str(number), meaning, CATALOGUE)
