"""`accelscope parse` on files of `/proc`, of the kubelet, and the ratio file."""

import json
from pathlib import Path
from typing import Any

import pytest

from accelscope.cli.main import main

UID = "7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
ID = "3fa9" * 16
OTHER_ID = "07bc" * 16
ENTRY = f'{{"PodUID":"{UID}","ContainerName":"a","ResourceName":"amd.com/gpu","DeviceIDs":{{"0":["x"]}}}}'
GRANT = {"pod_uid": UID, "container_name": "a", "resource_name": "amd.com/gpu", "device_ids": ["x"]}


@pytest.mark.parametrize(
    ("source", "text", "told"),
    [
        (
            "proc-cgroup",
            f"0::/kubepods/pod{UID}/{ID}\n",
            {"containers": [{"pod_uid": UID, "container_id": ID}]},
        ),
        ("proc-cgroup", f"0::/docker/{ID}\n", {"containers": [{"container_id": ID}]}),
        ("proc-cgroup", "0::/\n", {"containers": []}),
        (  # several processes in one file
            "proc-cgroup",
            f"0::/kubepods/pod{UID}/{ID}\n0::/user.slice\n0::/kubepods/pod{UID}/{OTHER_ID}\n0::/docker/{ID}\n"
            f"0::/kubepods/pod{UID}/{ID}\n",
            {
                "containers": [
                    {"pod_uid": UID, "container_id": ID},
                    {"pod_uid": UID, "container_id": OTHER_ID},
                    {"container_id": ID},
                ]
            },
        ),
        (
            "proc-cgroup",
            f"2:cpu:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/\n"
            f"2:cpu:/docker/{OTHER_ID}\n1:name=systemd:/docker/{OTHER_ID}\n0::/\n",
            {"containers": [{"container_id": ID}, {"container_id": OTHER_ID}]},
        ),
        (
            "proc-mountinfo",
            f"7 6 0:1 /pods/{UID}/containers/a/1f /dev/termination-log rw - ext4 x rw\n",
            {"containers": [{"pod_uid": UID, "container_name": "a"}]},
        ),
        (  # two processes, each with the root of its own mount namespace
            "proc-mountinfo",
            f"9 1 0:1 / / rw - ext4 x rw\n"
            f"7 9 0:1 /pods/{UID}/containers/a/1f /dev/termination-log rw - ext4 x rw\n"
            f"19 2 0:1 / / rw - ext4 x rw\n"
            f"17 19 0:1 /pods/{UID}/containers/b/1f /dev/termination-log rw - ext4 x rw\n",
            {
                "containers": [
                    {"pod_uid": UID, "container_name": "a"},
                    {"pod_uid": UID, "container_name": "b"},
                ]
            },
        ),
        ("kubelet-checkpoint", f'{{"Data":{{"PodDeviceEntries":[{ENTRY}]}}}}', {"allocations": [GRANT]}),
        ("kubelet-checkpoint", '{"Data":{"PodDeviceEntries":null}}', {"allocations": []}),
        ("gpu-allocation", "2.5\n", {"ratio": 2.5}),
    ],
)
def test_parsed_results_are_printed(
    source: str, text: str, told: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert document(source, text, tmp_path, capsys) == {
        "source": source,
        "devices": [],
        "processes": [],
        **told,
        "error": None,
        "rejected": [],
    }


@pytest.mark.parametrize("source", ["proc-cgroup", "proc-mountinfo", "kubelet-checkpoint", "gpu-allocation"])
@pytest.mark.parametrize("text", ["", "null", "\x00\x01", "[1, 2]"])
def test_other_text_is_an_error(
    source: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = document(source, text, tmp_path, capsys, exit_code=1)
    assert written["error"]["reason"]
    besides = {name: written[name] for name in ("containers", "allocations", "ratio") if name in written}
    assert besides in ({"containers": []}, {"allocations": []}, {})  # lists are there, as `devices` is


def document(
    source: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str], exit_code: int = 0
) -> dict[str, Any]:
    file = folder / "saved"
    file.write_text(text)
    assert main(["parse", source, str(file)]) == exit_code
    written: dict[str, Any] = json.loads(capsys.readouterr().out)
    return written
