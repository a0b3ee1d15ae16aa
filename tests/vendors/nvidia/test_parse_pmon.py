"""Parsing of pmon, with short examples."""

import pytest

from accelscope.model import Process, ProcessType
from accelscope.vendors.nvidia.parse_text import parse_pmon

MIB = 2**20
NEW = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name
"""
OLD = """\
# gpu     pid  type    sm   mem   enc   dec   command
# Idx       #   C/G     %     %     %     %   name
"""


def pids(text: str) -> list[tuple[int | None, int]]:
    parsed = parse_pmon(text)
    assert parsed.error is None
    return [(process.device_index, process.pid) for process in parsed.processes]


def expected(*, memory: int | None = None) -> Process:
    return Process(
        pid=4242,
        device_index=1,
        name="my",
        type=ProcessType.COMPUTE,
        memory_bytes=memory,
        utilization_ratio=0.5,
        memory_utilization_ratio=0.25,
        decoder_utilization_ratio=0.0,
    )


@pytest.mark.parametrize(
    ("text", "process"),
    [
        (
            f"{NEW}    1    4242    C    50    25     -     0     3     -   300     7    my tool   \n",
            300,
        ),
        (f"{OLD}    1    4242     C    50    25     -     0   my tool\n", None),
        (f"\ufeff{OLD}\n\n    1    4242     C    50    25     -     0   my tool\n", None),
        (f"  {OLD}    1    4242     C    50    25     -     0   my tool\n", None),
        (
            "#Date       Time      gpu  pid  type  sm  mem  enc  dec  fb  command\n"
            "#YYYYMMDD   HH:MM:SS  Idx    #   C/G   %    %    %    %  MB  name\n"
            " 20260102   03:04:05    1 4242     C  50   25    -    0 300  my tool\n",
            300,
        ),
        ("# command_line fb dec enc mem sm type pid gpu command\n x 300 0 - 25 50 C 4242 1 my tool", 300),
        (f"\ufeffbanner\r\n{NEW}".replace("\n", "\r\n") + " 1 4242 C 50 25 - 0 - - 300 0 my tool\r\n", 300),
    ],
)
def test_columns_are_read_by_name(text: str, process: int | None) -> None:
    parsed = parse_pmon(text)
    assert parsed.processes == (expected(memory=process and process * MIB),)
    assert (parsed.error, parsed.rejected) == (None, ())


def test_a_dash_is_absent_and_not_zero() -> None:
    [process] = parse_pmon(f"{NEW} 0 7 G - - - - - - - - x\n").processes
    assert process == Process(pid=7, device_index=0, name="x", type=ProcessType.GRAPHICS)


@pytest.mark.parametrize(
    ("letters", "kind", "mps"),
    [("C+G", ProcessType.BOTH, None), ("M", ProcessType.COMPUTE, True), ("M+C", ProcessType.COMPUTE, True)],
)
def test_process_types_of_pmon(letters: str, kind: ProcessType, mps: bool | None) -> None:
    [process] = parse_pmon(f"{OLD} 0 7 {letters} 1 1 1 1 x\n").processes
    assert (process.type, process.mps) == (kind, mps)


def test_a_ratio_above_one_is_kept() -> None:
    [process] = parse_pmon(f"{OLD} 0 7 C 103 1 1 1 x\n").processes
    assert process.utilization_ratio == 1.03


IDLE = " 1 - - - - - - -\n"


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        ("", []),
        (IDLE, []),
        (" 0 7 C 1 1 1 1 a\n 0 8 C 1 1 1 1 b\n", [(0, 7), (0, 8)]),
        # the same process on two devices is one sample
        (" 0 7 C 1 1 1 1 a\n 1 7 C 1 1 1 1 a\n", [(0, 7), (1, 7)]),
        # devices need not be in order
        (" 0 7 C 1 1 1 1 a\n 1 8 C 1 1 1 1 a\n 0 9 C 1 1 1 1 a\n", [(0, 7), (1, 8), (0, 9)]),
        # a process that came, one that went, a device that fell idle
        (f" 0 7 C 1 1 1 1 a\n{IDLE} 0 7 C 1 1 1 1 a\n 0 8 C 1 1 1 1 b\n{IDLE}", [(0, 7), (0, 8)]),
        (f" 0 7 C 1 1 1 1 a\n 1 8 C 1 1 1 1 b\n 0 7 C 1 1 1 1 a\n{IDLE}", [(0, 7)]),
        (" 0 7 C 1 1 1 1 a\n 0 - - - - - - -\n", []),
        (" 0 - - - - - - -\n 0 7 C 1 1 1 1 a\n", [(0, 7)]),
        # a process where nothing ran begins the next sample, which is not complete
        (" 0 7 C 1 1 1 1 a\n 1 - - - - - - -\n 1 8 C 1 1 1 1 b\n", [(0, 7)]),
        # the second sample lacks a device: the output ended before it was complete
        (" 0 7 C 1 1 1 1 a\n 1 8 C 1 1 1 1 b\n 0 7 C 1 1 1 1 a\n", [(0, 7), (1, 8)]),
        # the header comes again within a sample
        (f" 0 7 C 1 1 1 1 a\n 0 8 C 1 1 1 1 b\n 0 7 C 1 1 1 1 a\n{OLD} 0 9 C 1 1 1 1 b\n", [(0, 7), (0, 9)]),
    ],
)
def test_the_last_complete_sample_is_used(rows: str, last: list[tuple[int, int]]) -> None:
    assert pids(OLD + rows) == last


def test_values_come_from_the_last_sample() -> None:
    text = f"{OLD} 0 7 C - - - - a\n 0 7 C 10 1 1 1 a\n 0 7 C 20 1 1 1 a\n"
    assert [process.utilization_ratio for process in parse_pmon(text).processes] == [0.2]


def test_a_truncated_sample_is_replaced_by_the_previous_one() -> None:
    whole = " 0 7 C 10 1 1 1 a\n 0 8 C 1 1 1 1 b\n"
    parsed = parse_pmon(f"{OLD}{whole} 0 7 C 30 1 1 1 a\n 0 8 C 1 1 1")
    assert [process.utilization_ratio for process in parsed.processes] == [0.1, 0.01]
    assert [rejection.reason for rejection in parsed.rejected] == ["truncated"]


def test_a_single_truncated_sample_keeps_its_complete_rows() -> None:
    parsed = parse_pmon(f"{OLD} 0 7 C 10 1 1 1 a\n 0 8 C 1")
    assert [process.pid for process in parsed.processes] == [7]


def test_a_process_without_a_name_is_kept() -> None:
    assert pids(f"{OLD} 0 7 C 10 1 1 1\n 0 8 C 1 1 1 1 b\n") == [(0, 7), (0, 8)]


@pytest.mark.parametrize(
    ("row", "reasons"),
    [
        (" x 7 C 1 1 1 1 a", ["not_a_row"]),
        (" 0 0 C 1 1 1 1 a", ["not_a_row"]),
        (" 0 abc C 1 1 1 1 a", ["not_a_row"]),
        (" 0 [N/A] C 1 1 1 1 a", ["not_a_row"]),
        ("garbage", ["not_a_row"]),
        (" 0 7 C 1 1 1", ["not_a_row"]),
        ("Unable to determine the device handle for GPU 0000:02:00.0: Unknown Error", ["device_lost"]),
    ],
)
def test_a_bad_row_is_rejected_alone(row: str, reasons: list[str]) -> None:
    parsed = parse_pmon(f"{OLD} 0 5 C 1 1 1 1 a\n{row}\n 0 6 C 1 1 1 1 b\n")
    assert [process.pid for process in parsed.processes] == [5, 6]
    assert [rejection.reason for rejection in parsed.rejected] == reasons


def test_bad_memory_is_rejected_alone() -> None:
    parsed = parse_pmon(f"{NEW} 0 5 C 1 1 1 1 1 1 lots 1 a\n")
    assert [process.memory_bytes for process in parsed.processes] == [None]
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [
        ("fb: lots", "unreadable")
    ]


def test_a_bad_cell_is_rejected_alone() -> None:
    parsed = parse_pmon(f"{OLD} 0 5 Z ?? 1 1 1 a\n")
    [process] = parsed.processes
    assert (process.type, process.utilization_ratio, process.memory_utilization_ratio) == (None, None, 0.01)
    assert {(rejection.line, rejection.reason) for rejection in parsed.rejected} == {
        ("type: Z", "unreadable"),
        ("sm: ??", "unreadable"),
    }
