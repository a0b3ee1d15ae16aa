"""The Ascend reader with scripts as npu-smi: identity of chips, repeated queries, and tools that hang."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.waiting import wait_until

from accelscope.deviceplugin.vendor import Roots, open_vendor
from accelscope.model import HealthState, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.ascend import parse_info
from accelscope.vendors.ascend.details import ChipRegistry, NpuSmi, SmiResult, environment
from accelscope.vendors.ascend.driver_source import ErrorLog
from accelscope.vendors.common.contract import ReaderError, ReaderOptions

if TYPE_CHECKING:
    from tests.vendors.common.watched import Watch

TABLE = """\
| npu-smi 25.1 Version: 25.1 |
| NPU   Name  | Health | Power(W)  Temp(C)  Hugepages-Usage(page) |
| Chip        | Bus-Id | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB) |
| 2     910X  | OK     | 90.0  40  0 / 0 |
| 0           | 0000:C1:00.0 | 5  0 / 0  1000 / 65536 |
| 5     910X  | OK     | 91.0  41  0 / 0 |
| 0           | 0000:C2:00.0 | 6  0 / 0  2000 / 65536 |
+====+
| NPU Chip | Process id | Process name | Process memory(MB) |
| No running processes found in NPU 2 |
+====+
"""
MAP = "NPU ID  Chip ID  Chip Logic ID  Chip Name\n2  0  0  Ascend 910X\n5  0  1  Ascend 910X\n"
PHYSICAL_MAP = (
    "NPU ID  Chip ID  Chip Logic ID  Chip Phy-ID  Chip Name\n"
    "2  0  0  0  Ascend 910X\n"
    "5  0  1  3  Ascend 910X\n"
)
REFUSED = "This device does not support querying that."
IN_USE = "dcmi model initialized failed, because the device is used. ret is -8020"
DIE = 'printf "NPU ID : $5\\nChip ID : 0\\nVDie ID : 0000000A 0000000$5\\n"'
BY_ADDRESS = ["ascend:0000:c1:00.0-npu-2-0", "ascend:0000:c2:00.0-npu-5-0"]
LIST = "printf 'NPU ID : 2\\nNPU ID : 5\\n'"


def fail_first(text: str, times: int) -> str:
    """Print the text instead of the output in the first runs with the same arguments."""
    return f"""if [ $(grep -cxFe "$*" "$0.log") -le {times} ]; then echo '{text}'; exit 1; fi; """


def print_text(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def script(
    table: str = TABLE,
    *,
    numbers: str = print_text(MAP),
    listed: str = LIST,
    board: str = f"echo '{REFUSED}'",
    other: str = f"echo '{REFUSED}'",
) -> str:
    return f"""\
echo "$*" >> "$0.log"
case "$*" in
  info) cat <<'END'
{table}END
  ;;
  "info -m") {numbers}
  ;;
  "info -l") {listed} ;;
  "info -t board"*) {board} ;;
  *) {other} ;;
esac"""


def runs(tmp_path: Path) -> list[str]:
    return (tmp_path / "npu-smi-0.log").read_text().splitlines()


def wait_for(arguments: str, tmp_path: Path) -> None:
    wait_until(lambda: arguments in runs(tmp_path), f"{arguments} is run")


@pytest.mark.parametrize(
    ("board", "ids"),
    [
        (
            'printf "NPU ID : $5\\nChip ID : 0\\nVDie ID : 0000000A 0000000$5\\nSerial Number : S$5\\n"',
            ["ascend:0000000A-00000002", "ascend:0000000A-00000005"],
        ),
        ('printf "NPU ID : $5\\nSerial Number : S$5\\n"', ["ascend:S2-0", "ascend:S5-0"]),
        (f"echo '{REFUSED}'", BY_ADDRESS),
        ('printf "NPU ID : $5\\nSerial Number : NA\\n"', BY_ADDRESS),
    ],
    ids=["die", "serial number", "refused", "no value"],
)
def test_the_id_of_a_chip_comes_from_its_most_stable_value(
    watch_script: "Watch", board: str, ids: list[str]
) -> None:
    watched = watch_script(script(board=board))
    for _ in range(2):
        assert [d.id for d in watched.devices()] == ids
    assert [d.index for d in watched.devices()] == [0, 1]


def test_the_id_of_a_chip_comes_from_its_numbers_without_anything_else(watch_script: "Watch") -> None:
    table = TABLE.replace("0000:C1:00.0", "NA").replace("0000:C2:00.0", "NA")
    assert [d.id for d in watch_script(script(table)).devices()] == ["ascend:npu-2-0", "ascend:npu-5-0"]


SAME_DIE = 'printf "NPU ID : $5\\nChip ID : 0\\nVDie ID : 0000000A 0000000B\\n"'


def test_chips_that_report_the_same_die_all_have_ids_from_their_addresses(watch_script: "Watch") -> None:
    devices = watch_script(script(board=SAME_DIE)).devices()
    assert [device.id for device in devices] == BY_ADDRESS
    assert {device.uuid for device in devices} == {"0000000A-0000000B"}


def test_the_order_of_the_rows_does_not_decide_the_ids_of_chips_that_report_the_same_die(
    watch_script: "Watch",
) -> None:
    lines = TABLE.splitlines(keepends=True)
    swapped = "".join(lines[:3] + lines[5:7] + lines[3:5] + lines[7:])
    devices = watch_script(script(swapped, board=SAME_DIE)).devices()
    assert {device.board_id: device.id for device in devices} == {2: BY_ADDRESS[0], 5: BY_ADDRESS[1]}


def test_a_repeated_die_is_never_used_as_an_id_again(watch_script: "Watch", tmp_path: Path) -> None:
    """Not of the chip that stays, and not of a chip that is new."""
    lines = TABLE.splitlines(keepends=True)
    table = tmp_path / "table.txt"
    watched = watch_script(script(board=SAME_DIE).replace(f"cat <<'END'\n{TABLE}END", f"cat {table}"))

    def read_ids(shown: str) -> list[str]:
        table.write_text(shown)
        present = (d for d in watched.devices() if d.health.state is not HealthState.LOST)
        return [device.id for device in present]

    assert read_ids(TABLE) == BY_ADDRESS
    only_second = "".join(lines[:3] + lines[5:])
    assert read_ids(only_second) == BY_ADDRESS[1:]
    assert read_ids(only_second.replace("C2:00.0", "C9:00.0")) == ["ascend:0000:c9:00.0-npu-5-0"]
    assert read_ids(TABLE) == BY_ADDRESS


def test_boards_that_report_the_same_serial_number_have_ids_from_their_addresses(
    watch_script: "Watch",
) -> None:
    board = 'printf "NPU ID : $5\\nSerial Number : S1\\n"'
    assert [device.id for device in watch_script(script(board=board)).devices()] == BY_ADDRESS


def test_chips_that_share_a_bus_address_are_read_each_under_its_own_id(
    watch_script: "Watch", tmp_path: Path
) -> None:
    both = TABLE.replace("0000:C2:00.0", "0000:C1:00.0")
    lines = both.splitlines(keepends=True)
    table = tmp_path / "table.txt"

    def read_ids(shown: str) -> list[tuple[str, float | None]]:
        table.write_text(shown)
        watched = watch_script(script().replace(f"cat <<'END'\n{TABLE}END", f"cat {table}"))
        return [(device.id, device.power_watts) for device in watched.devices()]

    first, second = ("ascend:0000:c1:00.0-npu-2-0", 90.0), ("ascend:0000:c1:00.0-npu-5-0", 91.0)
    assert read_ids(both) == [first, second]
    assert read_ids("".join(lines[:3] + lines[5:])) == [second]
    assert read_ids("".join(lines[:5] + lines[7:])) == [first]


def test_output_for_all_chips_of_a_board_identifies_each_chip(watch_script: "Watch") -> None:
    """`-c` is refused, and the answer without it has a block for each chip."""
    table = TABLE.replace("| 5     910X", "| 2     910X").replace(
        "| 0           | 0000:C2", "| 1           | 0000:C2"
    )
    dies = "Chip ID : 0\\nVDie ID : 0000000A 00000001\\nChip ID : 1\\nVDie ID : 0000000A 00000002\\n"
    board = f"if [ $# = 7 ]; then echo '{REFUSED}'; exit 1; fi; printf 'NPU ID : 2\\n{dies}'"
    ids = [device.id for device in watch_script(script(table, board=board)).devices()]
    assert ids == ["ascend:0000000A-00000001", "ascend:0000000A-00000002"]


def test_the_die_of_a_board_is_not_used_for_its_chips(watch_script: "Watch") -> None:
    table = TABLE.replace("| 5     910X", "| 2     910X").replace(
        "| 0           | 0000:C2", "| 1           | 0000:C2"
    )
    blocks = "NPU ID : 2\\nSerial Number : S2\\nVDie ID : 0000000A 00000001\\n"
    board = f"if [ $# = 7 ]; then echo '{REFUSED}'; exit 1; fi; printf '{blocks}'"
    devices = watch_script(script(table, board=board)).devices()
    assert [(device.id, device.uuid) for device in devices] == [("ascend:S2-0", None), ("ascend:S2-1", None)]


def test_a_failed_identification_is_retried_before_an_id_is_published(
    watch_script: "Watch", tmp_path: Path
) -> None:
    flag = tmp_path / "works"
    board = (
        f'[ -e {flag} ] || kill -9 $$; printf "NPU ID : $5\\nChip ID : 0\\nVDie ID : 0000000A 0000000$5\\n"'
    )
    watched = watch_script(script(board=board))
    assert watched.devices() == ()
    flag.touch()
    assert [d.uuid for d in watched.devices()] == ["0000000A-00000002", "0000000A-00000005"]


@pytest.mark.parametrize("board", ["kill -9 $$", "exit 1", f"echo '{IN_USE}'"])
def test_a_chip_that_cannot_be_identified_gets_an_id_from_its_address(
    watch_script: "Watch", board: str
) -> None:
    watched = watch_script(script(board=board))
    assert [len(watched.devices()) for _ in range(3)] == [0, 0, 2]
    assert watched.devices()[0].id == BY_ADDRESS[0]


def test_the_reader_recovers_after_the_driver_was_in_use(watch_script: "Watch", tmp_path: Path) -> None:
    for name in ("davinci0", "davinci3", "davinci_manager", "devmm_svm", "hisi_hdc"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    watched = watch_script(
        script(
            numbers=fail_first(IN_USE, 1) + print_text(PHYSICAL_MAP),
            listed=fail_first(IN_USE, 1) + LIST,
            board=fail_first(IN_USE, 2) + DIE,
        )
    )
    assert [len(watched.devices()) for _ in range(2)] == [0, 0]
    result = watched.read()
    assert [(d.uuid, d.index, d.physical_id) for d in result.devices] == [
        ("0000000A-00000002", 0, 0),
        ("0000000A-00000005", 1, 3),
    ]
    part = open_vendor(Vendor("ascend"), Roots(dev=tmp_path / "dev"))
    units = [part.units(device, "huawei.com/Ascend910", 0) for device in result.devices]
    assert [unit.id for own in units for unit in own] == ["Ascend910-0", "Ascend910-3"]
    assert {c.reason: c.count for c in result.state.errors}["driver_in_use"] >= 6


def test_a_final_refusal_does_not_count_as_an_attempt(watch_script: "Watch") -> None:
    """A refusal for good of what is asked of the chip is no attempt at what is asked of its board."""
    board = f"if [ $# = 7 ]; then echo '{REFUSED}'; exit 1; fi; "
    board += fail_first(IN_USE, 2) + 'printf "NPU ID : $5\\nSerial Number : S$5\\n"'
    watched = watch_script(script(board=board))
    assert [d.id for d in watched.until(lambda result: bool(result.devices)).devices] == [
        "ascend:S2-0",
        "ascend:S5-0",
    ]


def test_numbers_are_queried_until_they_are_known(watch_script: "Watch", tmp_path: Path) -> None:
    watched = watch_script(script(numbers=fail_first(IN_USE, 5) + print_text(MAP), board=DIE))
    indexes = [[d.index for d in watched.devices()] for _ in range(8)]
    assert indexes == [[None, None]] * 5 + [[0, 1]] * 3
    assert runs(tmp_path).count("info -m") == 6
    assert runs(tmp_path).count("info -l") == 1


@pytest.mark.parametrize("text", [REFUSED, "command or option is not found.", "Operation not permitted."])
def test_numbers_are_not_queried_again_after_a_final_refusal(
    watch_script: "Watch", tmp_path: Path, text: str
) -> None:
    watched = watch_script(script(numbers=f"echo '{text}'", board=DIE))
    for _ in range(3):
        watched.read()
    assert runs(tmp_path).count("info -m") == 1


def test_numbers_are_queried_again_after_an_internal_driver_error(watch_script: "Watch") -> None:
    internal = "dcmi module initialize failed. ret is -8005"
    watched = watch_script(script(numbers=fail_first(internal, 2) + print_text(MAP), board=DIE))
    assert [[d.index for d in watched.devices()] for _ in range(3)] == [[None, None]] * 2 + [[0, 1]]


@pytest.mark.parametrize("row", ["", "5  0  NA  Ascend 910X\n"], ids=["no row", "no number"])
def test_numbers_are_queried_again_if_the_map_lacks_a_chip(
    watch_script: "Watch", tmp_path: Path, row: str
) -> None:
    lacking = MAP[: MAP.index("5  0")] + row
    whole = tmp_path / "whole"
    numbers = f"[ -e {whole} ] || {{ printf '{lacking.encode('unicode_escape').decode()}'; exit; }}\n"
    watched = watch_script(script(numbers=numbers + print_text(MAP), board=DIE))
    assert [[d.index for d in watched.devices()] for _ in range(2)] == [[0, None]] * 2
    assert runs(tmp_path).count("info -m") == 2
    whole.touch()
    assert [[d.index for d in watched.devices()] for _ in range(2)] == [[0, 1]] * 2
    assert runs(tmp_path).count("info -m") == 3


def test_the_list_of_npus_is_queried_again_after_a_refusal(watch_script: "Watch", tmp_path: Path) -> None:
    longer = LIST.replace("NPU ID : 5", "NPU ID : 5\\nNPU ID : 7")
    watched = watch_script(script(listed=fail_first(IN_USE, 1) + longer, board=DIE))
    assert [watched.read().state.devices_expected for _ in range(3)] == [2, 3, 3]
    assert runs(tmp_path).count("info -l") == 2
    assert runs(tmp_path).count("info -m") == 1


def test_a_hanging_query_for_numbers_does_not_prevent_identification() -> None:
    """A run that hangs takes more time than a survey has for such questions."""
    now = 0.0

    class Smi:
        def query(self, arguments: list[str], parse: Callable[[str], ParseResult]) -> SmiResult:
            nonlocal now
            if arguments == ["-m"]:
                now += 10.0
                raise ReaderError("tool_timeout", "it hangs")
            text = f"NPU ID : {arguments[3]}\nChip ID : 0\nVDie ID : 0000000A 0000000{arguments[3]}\n"
            return SmiResult(parse(text), text, 0)

    registry = ChipRegistry(cast("NpuSmi", Smi()), 1.0, monotonic=lambda: now)
    devices = parse_info.parse(TABLE).devices
    for _ in range(5):
        registry.update(devices)
    assert all(registry.identity(device) for device in devices)


def test_chips_are_identified_once(watch_script: "Watch", tmp_path: Path) -> None:
    watched = watch_script(script(board='printf "NPU ID : $5\\nSerial Number : S$5\\n"'))
    for _ in range(4):
        watched.read()
    counts = {line: runs(tmp_path).count(line) for line in runs(tmp_path)}
    assert counts["info"] == 4
    assert counts["info -m"] == counts["info -l"] == 1
    assert counts["info -t board -i 2 -c 0"] == counts["info -t board -i 5 -c 0"] == 1


def test_unsupported_queries_are_not_repeated(watch_script: "Watch", tmp_path: Path) -> None:
    watched = watch_script(script())
    watched.read()
    wait_for("info -t common -i 5", tmp_path)
    time.sleep(0.8)  # another round
    result = watched.read()
    assert runs(tmp_path).count("info -t usages -i 2") == 1
    assert {c.reason for c in result.state.errors} <= {"not_supported"}


def test_health_is_queried_for_unhealthy_chips_only(watch_script: "Watch", tmp_path: Path) -> None:
    watched = watch_script(script(TABLE.replace("| 5     910X  | OK     |", "| 5     910X  | Alarm  |")))
    watched.read()
    wait_for("info -t health -i 5 -c 0", tmp_path)
    assert "info -t health -i 2 -c 0" not in runs(tmp_path)


def test_hanging_details_do_not_delay_a_reading(watch_script: "Watch") -> None:
    watched = watch_script(script(board='printf "NPU ID : $5\\nSerial Number : S$5\\n"', other="sleep 30"))
    watched.read()
    time.sleep(0.3)
    started = time.monotonic()
    result = watched.read()
    assert time.monotonic() - started < 20
    assert result.state.devices_seen == 2


WITHOUT_PROCESSES = TABLE[: TABLE.index("| NPU Chip |")]


@pytest.mark.parametrize(
    ("table", "answer", "found"),
    [
        (
            WITHOUT_PROCESSES.replace("| 5     910X", "| 2     910X").replace(
                "| 0           | 0000:C2", "| 1           | 0000:C2"
            ),
            "Process id:7 Process name:a Process memory(MB):48\nChip ID : 0\n"
            "Process id:8 Process name:b Process memory(MB):49\nChip ID : 1\n",
            [[7], [8]],
        ),
        (WITHOUT_PROCESSES, "Process id:$5 Process name:a Process memory(MB):48\n", [[2], [5]]),
    ],
    ids=["only chips are named", "nothing is named and the board has one chip"],
)
def test_processes_are_matched_to_chips_without_an_npu_id(
    watch_script: "Watch", table: str, answer: str, found: list[list[int]]
) -> None:
    processes = f'case "$*" in *proc-mem*) cat <<END\n{answer}END\n;; *) echo "{REFUSED}" ;; esac'
    watched = watch_script(script(table, other=processes))
    result = watched.until(lambda result: len(result.processes) == 2)
    ids: dict[str, list[int]] = {device.id: [] for device in result.devices}
    for process in result.processes:
        ids[process.device or ""].append(process.pid)
    assert list(ids.values()) == found


def test_a_table_with_an_exit_code_is_read_and_counted(watch_script: "Watch") -> None:
    result = watch_script(script().replace("END\n  ;;", "END\n  exit 3 ;;", 1)).read()
    assert result.state.devices_seen == 2
    assert [(c.reason, c.count) for c in result.state.errors if c.reason == "tool_exit_code"] == [
        ("tool_exit_code", 1)
    ]


def test_an_incomplete_driver_installation_is_counted(watch_script: "Watch") -> None:
    table = TABLE + "[WARNING]The driver package may not be completely installed, which may cause trouble.\n"
    result = watch_script(script(table)).read()
    assert result.state.devices_seen == 2
    assert "driver_incomplete" in {c.reason for c in result.state.errors}


def test_an_npu_without_a_row_is_counted(watch_script: "Watch") -> None:
    result = watch_script(script().replace("NPU ID : 5", "NPU ID : 5\\nNPU ID : 7")).read()
    assert "npu_without_row" in {c.reason for c in result.state.errors}


def test_a_truncated_line_is_not_read(watch_script: "Watch") -> None:
    """The last row ends as a row does, but there its output breaks off."""
    end = TABLE.index("65536 |", TABLE.index("0000:C2")) + len("65536 |")
    watched = watch_script(f"printf '%s' '{TABLE[:end]}'")
    assert [d.board_id for d in watched.until(lambda result: bool(result.devices)).devices] == [2]


def test_details_of_a_chip_are_not_used_for_another_with_its_number(
    watch_script: "Watch", tmp_path: Path
) -> None:
    """After a reset NPU 2 is another chip; until it was asked itself, its serial number is not known."""
    swapped = tmp_path / "swapped"
    number = f"$(cat {swapped} 2>/dev/null || echo 1)"
    die = f'printf "NPU ID : $5\\nChip ID : 0\\nVDie ID : 0000000A 0000000{number}\\n"'
    board = f'if [ $# = 7 ]; then {die}; else printf "NPU ID : 2\\nSerial Number : S1\\n"; fi'
    only = "".join(line for n, line in enumerate(TABLE.splitlines(keepends=True)) if n not in (5, 6))
    table = tmp_path / "table.txt"
    table.write_text(only)
    watched = watch_script(script(board=board).replace(f"cat <<'END'\n{TABLE}END", f"cat {table}"))
    first = watched.until(lambda result: any(d.serial == "S1" for d in result.devices)).devices[0]
    swapped.write_text("2")
    table.write_text(only.replace("0000:C1:00.0", "0000:C9:00.0"))
    second = next(d for d in watched.devices() if not d.stale)
    assert (first.uuid, second.uuid) == ("0000000A-00000001", "0000000A-00000002")
    assert second.serial is None


def test_a_node_without_ascend_has_no_errors(watch_script: "Watch", tmp_path: Path) -> None:
    state = watch_script("", npu_smi_path=str(tmp_path / "nowhere")).read().state
    assert (state.found, state.up) == (False, False)
    assert state.errors == ()


def test_device_files_without_npu_smi_are_counted_as_an_error(watch_script: "Watch", tmp_path: Path) -> None:
    watched = watch_script("", npu_smi_path=str(tmp_path / "nowhere"))
    (tmp_path / "dev/davinci_manager").touch()
    state = watched.read().state
    assert (state.found, state.up) == (True, False)
    assert [c.reason for c in state.errors] == ["tool_missing"]


def test_another_npu_smi_is_not_an_error_without_ascend_devices(watch_script: "Watch") -> None:
    state = watch_script("echo 'npu-smi for AMD XDNA'").read().state
    assert not state.found
    assert state.reason is not None
    assert "AMD" in state.reason


def test_the_tool_finds_the_drivers_libraries() -> None:
    options = ReaderOptions(
        settings={"ascend_driver_root": "/driver"}, environment={"LD_LIBRARY_PATH": "/mine"}
    )
    folders = "/driver/lib64/driver:/driver/lib64/common:/driver/lib64:/usr/local/dcmi"
    assert environment(options)["LD_LIBRARY_PATH"] == f"{folders}:/mine"
    bare = ReaderOptions(settings={"ascend_driver_root": "/driver"}, environment={})
    assert environment(bare)["LD_LIBRARY_PATH"] == folders


def test_the_number_of_stored_error_codes_is_limited() -> None:
    log = ErrorLog()
    log.record("a", (str(n) for n in range(10_000)), 1.0)
    log.record("a", (str(n) for n in range(10_000)), 2.0)
    assert len(log.counts("a")) == 256
    assert {(e.count, e.last_seen) for e in log.counts("a")} == {(1, 2.0)}
    assert log.counts("b") == ()
