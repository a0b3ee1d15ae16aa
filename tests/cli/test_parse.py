"""`accelscope parse` as people call it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from accelscope.cli.main import main
from accelscope.parsing import sources

ROW = "0, GPU-a, NVIDIA X, 50, 10, 5, 1000, 400, 600, [N/A], 300.00, 4, 16\n"
QUERY = "nvidia-smi-query-gpu"


def written(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    assert main(["parse", *arguments]) == exit_code
    output = capsys.readouterr()
    assert output.err == ""
    document = json.loads(output.out)
    assert list(document) == ["source", "devices", "processes", "error", "rejected"]
    return dict(document)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["parse", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    [line] = output.err.splitlines()
    return line


def save(folder: Path, content: str | bytes) -> str:
    file = folder / "saved.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(file)


def test_a_device_has_the_models_names_and_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, QUERY, save(tmp_path, ROW)) == {
        "source": QUERY,
        "devices": [
            {
                "vendor": "nvidia",
                "id": "nvidia:GPU-a",
                "index": 0,
                "model": "NVIDIA X",
                "uuid": "GPU-a",
                "utilization_ratio": 0.1,
                "memory_utilization_ratio": 0.05,
                "memory_total_bytes": 1000 * 2**20,
                "memory_used_bytes": 400 * 2**20,
                "memory_free_bytes": 600 * 2**20,
                "temperature_celsius": 50.0,
                "sensors": [{"name": "gpu", "celsius": 50.0}],
                "power_limit_watts": 300.0,
                "pcie": {"generation": 4, "width": 16},
                "absent": [{"field": "power_watts", "reason": "not_supported"}],
            }
        ],
        "processes": [],
        "error": None,
        "rejected": [],
    }


def test_health_is_written_when_something_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = written(capsys, QUERY, save(tmp_path, ROW.replace("[N/A]", "[GPU is lost]")))
    [device] = document["devices"]
    assert device["health"]["state"] == "lost"
    assert device["health"]["vendor_word"] == "GPU is lost"


def test_processes_leave_out_what_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# gpu pid type sm mem enc dec fb command\n 0 7 C 50 - - - 3 tool\nrubbish\n"
    document = written(capsys, "nvidia-smi-pmon", save(tmp_path, text))
    assert document["processes"] == [
        {
            "pid": 7,
            "device_index": 0,
            "name": "tool",
            "type": "compute",
            "memory_bytes": 3 * 2**20,
            "utilization_ratio": 0.5,
        }
    ]
    assert document["rejected"] == [{"line": "rubbish", "reason": "not_a_row"}]


def test_a_message_of_the_tool_is_printed_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path, "No devices were found\n")
    document = written(capsys, "nvidia-smi-list", file, exit_code=1)
    assert document["error"] == {"reason": "no_devices", "text": "No devices were found"}


def test_lines_that_cannot_be_read_beside_good_ones_are_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = written(capsys, QUERY, save(tmp_path, f"{ROW}rubbish\n"))
    assert document["error"] is None
    assert document["rejected"]


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["parse", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    for said in ("0 if the output was parsed", "1 if the document has an `error`", "2 for invalid arguments"):
        assert said in words


@pytest.mark.parametrize("arguments", [[QUERY], [QUERY, "-"]])
def test_standard_input(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROW.encode())))
    assert len(written(capsys, *arguments)["devices"]) == 1


def test_columns_are_named_for_a_csv_without_a_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = written(capsys, QUERY, save(tmp_path, "GPU-a, 40\n"), "--fields", "uuid, temperature.gpu")
    [device] = document["devices"]
    assert device["temperature_celsius"] == 40.0


@pytest.mark.parametrize(
    "content",
    [
        b"\xff banner\nGPU 0: caf\xc3\xa9 (UUID: GPU-a)\n",
        "GPU 0: caf\u00e9 (UUID: GPU-a)\r\n".encode("utf-16"),
        "\ufeffGPU 0: caf\u00e9 (UUID: GPU-a)\n".encode(),
    ],
)
def test_any_encoding_is_read(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = written(capsys, "nvidia-smi-list", save(tmp_path, content))
    [device] = document["devices"]
    assert device["model"] == "caf\u00e9"


def test_bytes_of_another_encoding_cost_their_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = written(capsys, "nvidia-smi-list", save(tmp_path, b"GPU 0: caf\xe9 (UUID: GPU-a)\n"))
    [device] = document["devices"]
    assert device["uuid"] == "GPU-a"
    assert device["absent"] == [{"field": "model", "reason": "unreadable"}]
    assert [rejection["reason"] for rejection in document["rejected"]] == ["unreadable"]


def test_list_names_every_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--list"]) == 0
    output = capsys.readouterr().out
    assert [line.split()[0] for line in output.splitlines() if not line.startswith(" ")] == list(sources())
    assert {
        "nvidia-smi-query-gpu",
        "nvidia-smi-pmon",
        "nvidia-smi-compute-apps",
        "nvidia-smi-xml",
        "nvidia-smi-list",
    } <= sources().keys()
    assert "gpu_uuid,pid,process_name,used_memory" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nvidia-smi-query-gpu"),
        (["nvidia-smi-chart"], 'unknown source "nvidia-smi-chart"; allowed: nvidia-smi-query-gpu'),
        ([QUERY, "/nowhere/at/all"], "/nowhere/at/all: No such file or directory"),
        ([QUERY, "."], "Is a directory"),
        ([QUERY, "--fields", "index,,uuid"], "empty name"),
        (["nvidia-smi-pmon", "--fields", "index"], "--fields"),
    ],
)
def test_a_wrong_command_is_one_clear_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, *arguments)
    assert line.startswith("accelscope parse: ")
    assert said in line


def test_a_file_too_large_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(64 * 2**20 + 1)
    assert "larger than 64 MiB" in refused(capsys, QUERY, str(file))
