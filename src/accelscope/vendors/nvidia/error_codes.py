"""NVIDIA's error codes: XIDs of GPUs, and SXIDs of NVSwitches, which have five digits.

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

# SXIDs. NVIDIA publishes a name and an action for each; the first two digits are the unit of the switch.

SXIDS = (
    "https://github.com/NVIDIA/NVSentinel/blob/6f8b0fcfa8e502bdda78fabf96facef729a9285b/distros/kubernetes/"
    "nvsentinel/charts/nvswitch-health-monitor/sxiderrorsmapping.csv"
)

# By unit: its name, and the number of its codes.
_UNITS: Mapping[int, tuple[str, int]] = MappingProxyType(
    {
        10: ("host interface", 8),
        11: ("port ingress", 47),
        12: ("port egress", 51),
        13: ("port state (FSTATE)", 8),
        14: ("port state (TSTATE)", 18),
        15: ("port routing", 20),
        16: ("port", 3),
        17: ("NVLink control", 8),
        18: ("NVLink interface", 20),
        19: ("NVLink transaction layer", 84),
        20: ("NVLink data link layer", 38),
        21: ("crossbar (AFS)", 10),
        22: ("NVLink microcontroller", 13),
        23: ("crossbar", 17),
        24: ("source tracking", 10),
        25: ("NVLink link state", 10),
        26: ("switch microcontroller", 8),
        27: ("cable controller", 7),
        28: ("cable module temperature", 6),
        29: ("multicast state", 6),
        30: ("reduction state", 6),
    }
)
_FABRIC = "Drain the node and reset all GPUs and NVSwitches, or reboot it"
_FATAL: tuple[tuple[str, Handling, str], ...] = (
    (
        "fatal error",
        Handling("critical", "hardware", _FABRIC, "reset"),
        "10003 10006-10008 12020 12028 12032 14017 19084 22003 22011 23001-23008 23010-23016 26001-26007",
    ),
    (
        "fatal error of the GPU on this link",
        Handling("critical", "hardware", "Drain the GPU on the link and reset it", "reset"),
        "14001 14002 14014 14018 20034 24007-24010",
    ),
    (
        "uncorrectable internal error",
        Handling("critical", "hardware", f"{_FABRIC}; if it returns, have the switch replaced", "reset"),
        "11001 11007 11009 11013 11017-11020 11028-11030 12001 12002 12022 12024-12027 12030 12031 "
        "12035 12037 12039 12041 12043 12045 12047 12048 14004 14006 14008 14010 14016 15001 15005 "
        "15006 15009 15010 15012 15013 15015 15017 15019 17002 17003 17006 17007 19004-19006 "
        "19013-19017 19046-19048 19053 19054 19056 19058 19060 19061 19063 19064 19066 19067 19069 "
        "19070 22012 23009 23017 24004-24006 29002 29004 30002 30004",
    ),
    (
        "unexpected error",
        Handling("critical", None, f"{_FABRIC}; report the error to NVIDIA", "reset"),
        "12004 12005 12007 12008 13001-13008 14011-14013 16002 16003 18011 18016 19027-19032 "
        "19074-19076 19079 20011 20016-20033 21001-21010 28006",
    ),
    (
        "link error",
        Handling("critical", "hardware", f"{_FABRIC}; check the signal quality of the link", "reset"),
        "18001-18010 18012-18015 18017-18020 19001-19003 19007 19008 19010-19012 19018-19021 20004 "
        "20005 25008-25010",
    ),
    (
        "link error, often a bad connection",
        Handling("critical", "hardware", f"{_FABRIC}; check cable and connectors of the link", "reset"),
        "20009 20010 20012 27001-27007",
    ),
    (
        "link error that needs a diagnosis",
        Handling("critical", "hardware", f"{_FABRIC}; run NVIDIA's field diagnosis", "reset"),
        "19036 19037 19080 19083 20006 20007 20036-20038",
    ),
    ("too hot", Handling("warning", "environment", "Check fans and airflow"), "10004 28001 28003 28005"),
    (
        "access rule violated",
        Handling("critical", "driver", "Check the configuration of Fabric Manager; restart it", "reset"),
        "11004",
    ),
)
_NOT_FATAL = Handling("info", None, _NOTHING)


def error_code(code: str) -> ErrorCode | None:
    """None: not a number, so it is neither an XID nor an SXID."""
    if not code.isdecimal():
        return None
    number = int(code)
    if number in _XIDS:
        meaning, handling = _XIDS[number]
        return handling.of(code, meaning, CATALOGUE)
    if 0 < number <= _LAST_XID:
        return _UNUSED.of(code, "not used by A100 and newer GPUs", CATALOGUE)
    unit, count = _UNITS.get(number // 1000, ("", 0))
    if 0 < number % 1000 <= count:
        return _switch_error(number, unit)
    return _UNKNOWN.of(code, "not in the catalogue", CATALOGUE)


def _switch_error(number: int, unit: str) -> ErrorCode:
    for meaning, handling, codes in _FATAL:
        if any(_is_in(number, span) for span in codes.split()):
            return handling.of(str(number), f"NVSwitch {unit}: {meaning}", SXIDS)
    return _NOT_FATAL.of(str(number), f"NVSwitch {unit}: non-fatal event", SXIDS)


def _is_in(number: int, span: str) -> bool:
    first, _, last = span.partition("-")
    return int(first) <= number <= int(last or first)


def documented() -> Iterator[ErrorCode]:
    for number, (meaning, handling) in _XIDS.items():
        yield handling.of(str(number), meaning, CATALOGUE)
    for prefix, (unit, count) in _UNITS.items():
        for number in range(prefix * 1000 + 1, prefix * 1000 + count + 1):
            yield _switch_error(number, unit)
