"""Ascend's fault codes: hexadecimal numbers that `npu-smi info -t health` prints.

Huawei publishes a handling level for each code; severity, action and clearing follow from it. It publishes
few meanings: its open driver (https://gitcode.com/cann/driver) names hardware blocks, the first four digits
of a code, and kinds of error, the last four. Where it names no block, the meaning is the level alone.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from accelscope.vendors.common.error_codes import ErrorCode, Handling

_LEVELS_SOURCE = (
    "https://www.hiascend.com/document/detail/en/mindcluster/730/clustersched/schedulingug/"
    "mxdl_appliance_006.html"
)
_MEMORY_SOURCE = (
    "https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/850/maintenref/troubleshooting/"
    "troubleshooting_0009.html"
)
_CACHE_SOURCE = (
    "https://www.hiascend.com/document/detail/en/canncommercial/800/maintenref/troubleshooting/"
    "troubleshooting_0010.html"
)
_SCHEDULER_SOURCE = "https://gitcode.com/Ascend/mind-cluster"

_RESET = "Drain the chip and reset it with `npu-smi set -t reset`; if the fault returns, have it replaced"

# By Huawei's name of the level, the most severe first.
_LEVELS: Mapping[str, tuple[Handling, str]] = MappingProxyType(
    {
        "SeparateNPU": (
            Handling(
                "critical",
                "hardware",
                "Drain the chip and have it replaced; a reset does not repair it",
                "replacement",
            ),
            """
        4C4BA00C 80818C00 80818C05 80DF8402 80E0020B 80E18402 80E3A201 814F8002 816F8002 817F8002
        9419321B A2301000 A2301001 A2302001 A4192C1A A4193216 A419321B A419321C A42F390F A42F3916
        A42F391A A6183207 A62F3934 A8028801 A819320F A8193234 A8193235
        """,
        ),
        "RestartNPU": (
            Handling("critical", None, _RESET, "reset"),
            """
        40F84E00 80A18008 80A38008 80A58008 80B58000 80B78000 80B98000 80B98008 80BD8008 80C78008
        80C98001 80CB8001 80CD8008 80CF8000 80CF8008 80CF8009 80DE1801 80DF8000 80DF8008 80DF8009
        80DF800A 80E18000 80E18005 80E18008 80E1800A 80E18404 80E21008 80E2120D 80E21E01 80E24E00
        80E38008 80E39200 80E3A202 80E3A203 80E3A207 80E44E00 80E58005 80E58009 80E58E02 80E58E03
        80E78000 80E78008 80F18000 80F18008 80F1800A 80F2180D 80F38008 80F78003 80F78008 80F78009
        80F78C02 80F78C03 80F78C04 80FA4E00 80FB8005 812E4E00 812F8000 81338002 81338008 8139800A
        813B8002 813B8008 813F800A 8145800A 81478002 81478008 81498004 814F8008 81578002 81578008
        815F8002 815F8008 816F8008 817F8008 81938002 81938008 81958002 81958008 81978002 81978008
        81998008 81998009 819B800A 81B38008 81C5800A 81C7800A 81C9800A 8C03A000 8C1FA006 8C4BA00C
        A2141004 A2141006 A2142004 A2142006 A2145004 A4183200 A6023001 A6023002 A6023003 A6023004
        A6060000 A6060001 A6060002 A6060003 A6060004 A6060005 A606000A A606000B A606000C A606000F
        A606009D A6060FFF A607FFFF A6140001 A6140002 A6140003 A6140004 A6140005 A6140006 A6141003
        A6142003 A6143003 A6144003 A6145003 A6192D15 A6193206 A6193215 A6193248 A62F3905 A62FFFFF
        A6303003 A6303004 A6360000 A6361000 A6362000 A8021004 A8060FFF A807FFFF A82A0000
        """,
        ),
        "FreeRestartNPU": (
            Handling("critical", None, _RESET, "reset"),
            """
        8C044E00 8C064E00 8C084E00 8C0A4E00 8C0C4E00 8C0E4E00 8C104E00 8C124E00 8C17A005 8C19A005
        8C1DA005 8C464E00 A4193217 A4193218 A42A0000 A42F3917 A42F3918
        """,
        ),
        "RestartBusiness": (
            Handling("warning", None, "Restart the application"),
            """
        80E01801 81B38004 81B38009 8C204E00 A2301002 A2303001 A4302003 A4302004 A4302005 A4302006
        A4302009 A430200A A60250A1 A6301002 A8028802 B4060006 B4060007 B4060008 B4060009 B406000D
        B406000E B4060010 B4060011 B4060014 B406009C
        """,
        ),
        "RestartRequest": (
            Handling("warning", None, "Repeat the inference request, or restart the training job"),
            """
        80BB8000 80BB8003 80BB8008 80BB8009 80BB800A 80BD8000 80BD8003 80BD8009 80C98000 80C98002
        80C98003 80C98008 80C98009 80C9800A 80CB8002 80CB8008 80CB8009 80CB800A 80CF8003 80D58000
        80D58009 80D98008 80DB8000 80DB800A 80DD8000 80DD8003 81318008 81AB8003 81AB8008 81AB800D
        """,
        ),
        "SubHealthFault": (
            Handling("warning", None, "Watch the chip; jobs can run slower"),
            """
        80818C06 80DE0207 80E18405 80E20207 81078605 819B8605 81A3880C 81AD8605 8C1F860A 8C2FA001
        """,
        ),
        "NotHandleFault": (
            Handling("info", None, "None needed"),
            """
        4C1F8608 80818200 80818201 80818202 80818203 80818204 80818205 80A18005 80A18006 80A38003
        80A38006 80A58003 80A58006 80B78005 80B78006 80B98006 80BD8006 80C98006 80CB8006 80CD8003
        80CD8006 80D38009 80DD8007 80DD8008 80DE0200 80DE1803 80DE1805 80DF8006 80DF8400 80DF8401
        80E00209 80E01805 80E01809 80E18006 80E1800F 80E18400 80E18401 80E21007 80E38003 80F18003
        80F18006 80F38003 80F38006 80F38009 80F78006 80FB8000 81318006 81338004 81338006 813B8004
        813B8006 81478004 81478006 814D8006 814F8004 814F8006 81578004 81578006 815F8004 815F8006
        816F8004 816F8006 817F8004 817F8006 81938004 81938006 81958004 81958006 81978004 81978006
        81998006 819B8003 819B8006 819B800D 819D8000 8C1F8608 8C1F8609 8C1F860B 8C2FA009 A2140007
        A2140008 A2140009 A214000A A214000B A214000D A4025021 A4025041 A4025061 A4025081 A40250E1
        A4025101 A4028801 A4140007 A4140008 A4140009 A414000A A414000B A414000C A414000D A4303002
        A60250C1
        """,
        ),
    }
)
# Codes whose meaning Huawei states, and one whose level depends on how long it lasts.
_STATED: Mapping[str, ErrorCode] = MappingProxyType(
    {
        entry.code: entry
        for entry in (
            Handling(
                "warning", "hardware", "Restart the application; reset the chip if the error returns"
            ).of("80E01801", "uncorrectable memory error", _MEMORY_SOURCE),
            Handling("info", "hardware", "None needed; watch the chip for 80E01801").of(
                "80E01809", "bit errors in memory", _MEMORY_SOURCE
            ),
            Handling(
                "warning", "hardware", "Restart the application; isolate the chip if the error returns"
            ).of("80C98000", "AI core: instruction cache differs from memory", _CACHE_SOURCE),
            Handling("warning", None, "Check cable, optical module and switch port of the chip's network").of(
                "81078603", "network link down", _SCHEDULER_SOURCE
            ),
        )
    }
)
_UNKNOWN = Handling("warning", None, "Look the code up in Huawei's list of health management faults")

_BLOCKS: Mapping[str, str] = MappingProxyType(
    {
        "80A1": "CPU core",
        "80A3": "L3 cache data",
        "80A5": "L3 cache tags",
        "80B5": "SIOE",
        "80B7": "SLLC",
        "80B9": "PCIe",
        "80BB": "RoCE network",
        "80BD": "network interface",
        "80C7": "task scheduler",
        "80C9": "AI core",
        "80CB": "vector core",
        "80CD": "L2 buffer",
        "80DF": "DDR memory",
        "80E0": "HBM memory",
        "80E1": "HBM memory",
        "80E3": "power management",
        "80F1": "HHA",
        "80F2": "HBM memory agent (HBMA)",
        "80F3": "HBM memory agent (HBMA)",
        "80F7": "task scheduler hardware",
        "80FB": "task scheduler CPU",
        "8133": "task scheduler dispatch",
        "813B": "AI core dispatch",
        "8147": "video processing dispatch",
        "815F": "peripheral dispatch",
        "8193": "DSA dispatch",
        "8195": "network dispatch",
        "8197": "PCIe dispatch",
    }
)
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "8000": "error",
        "8001": "non-fatal error",
        "8002": "input error",
        "8003": "wrong input or configuration",
        "8004": "configuration error",
        "8005": "parity error",
        "8006": "corrected memory error",
        "8008": "uncorrectable memory error",
        "8009": "bus error",
        "800A": "timeout",
    }
)
_DIGITS = frozenset("0123456789ABCDEF")


def error_code(code: str) -> ErrorCode | None:
    """None: not a hexadecimal number of a fault code's length."""
    if not (4 <= len(code) <= 16 and _DIGITS.issuperset(code)):
        return None
    if code in _STATED:
        return _STATED[code]
    for level, (handling, codes) in _LEVELS.items():
        if code in codes.split():
            return handling.of(code, _meaning(code, level), _LEVELS_SOURCE)
    return _UNKNOWN.of(code, "not in the catalogue", _LEVELS_SOURCE)


def _meaning(code: str, level: str) -> str:
    block, kind = _BLOCKS.get(code[:4]), _KINDS.get(code[4:])
    if block is None:
        return f"no published meaning; level {level}"
    return f"{block}: {kind}" if kind is not None else f"{block}: fault of level {level}"


def documented() -> Iterator[ErrorCode]:
    yield from _STATED.values()
    for level, (handling, codes) in _LEVELS.items():
        for code in codes.split():
            if code not in _STATED:
                yield handling.of(code, _meaning(code, level), _LEVELS_SOURCE)
