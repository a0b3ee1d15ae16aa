"""The device or partition of each file in the job-mapping folder."""

from pathlib import Path
from typing import BinaryIO

import pytest

from accelscope.attribution import shares as job_mapping
from accelscope.attribution.shares import JobMapping
from accelscope.files import open_regular
from accelscope.model import Device, Partition, Vendor

GPU_UUID = "GPU-11111111-2222-3333-4444-555555555555"
MIG_UUID = "MIG-11111111-2222-3333-4444-555555555555"
INSTANCE = Partition(id="inst", uuid=MIG_UUID, gpu_instance_id=7, compute_instance_id=0)
GPU = Device(vendor=Vendor("nvidia"), id="nvidia:a", index=0, uuid=GPU_UUID, partitions=(INSTANCE,))
AMD_UUID = "1eff74a1-0000-1000-8039-5ab8dd8b4327"
AMD = Device(vendor=Vendor("amd"), id="amd:b", index=0, uuid=AMD_UUID)
AMD_PARTS = Device(vendor=Vendor("amd"), id="amd:d", index=0, partitions=(INSTANCE,))
NPU = Device(vendor=Vendor("ascend"), id="ascend:c", index=0)


@pytest.mark.parametrize(
    ("name", "devices", "part"),
    [
        ("0", [GPU], ("nvidia:a", None)),
        ("0", [AMD, GPU, NPU], ("nvidia:a", None)),
        ("0", [AMD], ("amd:b", None)),
        ("0", [AMD, NPU], None),
        ("1", [GPU], None),
        (GPU_UUID, [AMD, GPU], ("nvidia:a", None)),
        ("0.7", [GPU], ("nvidia:a", "inst")),
        ("0.8", [GPU], None),
        ("0.7", [AMD_PARTS, NPU], None),  # either vendor could be meant
        (MIG_UUID, [GPU], ("nvidia:a", "inst")),
        (AMD_UUID, [AMD, GPU], ("amd:b", None)),
    ],
)
def test_the_file_name_selects_the_device(
    tmp_path: Path, name: str, devices: list[Device], part: tuple[str, str | None] | None
) -> None:
    (tmp_path / name).write_text("17\n")
    assert JobMapping(tmp_path, lambda: 0.0).by_part(devices) == ({} if part is None else {part: ("17",)})


def test_an_unreadable_file_does_not_affect_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, job in (("0", "17"), ("1", "denied"), ("2", "18")):
        (tmp_path / name).write_text(f"{job}\n")

    def denied(path: Path) -> BinaryIO:
        if path.name == "1":
            raise PermissionError(13, "Permission denied", str(path))
        return open_regular(path)

    monkeypatch.setattr(job_mapping, "open_regular", denied)
    more = [Device(vendor=Vendor("nvidia"), id=f"nvidia:{index}", index=index) for index in (1, 2)]
    jobs = JobMapping(tmp_path, lambda: 0.0)
    assert jobs.by_part([GPU, *more]) == {("nvidia:a", None): ("17",), ("nvidia:2", None): ("18",)}
    state = jobs.state()
    assert state is not None
    assert (state.up, state.reason) == (False, "unreadable")
    assert state.error == f"{tmp_path / '1'} cannot be read: Permission denied"


def test_a_file_that_disappears_does_not_affect_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "1", "2"):
        (tmp_path / name).write_text("17\n")

    def gone(path: Path) -> BinaryIO:
        if path.name == "1":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return open_regular(path)

    monkeypatch.setattr(job_mapping, "open_regular", gone)
    assert job_mapping.read_job_mapping(tmp_path, {"0", "1", "2"}) == ({"0": ("17",), "2": ("17",)}, [])


def test_the_state_of_the_source(tmp_path: Path) -> None:
    jobs = JobMapping(tmp_path, lambda: 5.0)
    jobs.by_part([GPU])
    state = jobs.state()
    assert state is not None
    assert (state.source, state.detail, state.up) == ("job-mapping", str(tmp_path), True)
    missing = JobMapping(tmp_path / "none", lambda: 5.0)
    assert missing.by_part([GPU]) == {}
    state = missing.state()
    assert state is not None
    assert (state.up, state.reason) == (False, "unreadable")
    assert state.error == f"{tmp_path / 'none'} cannot be listed: No such file or directory"


def test_without_a_folder_there_is_no_source() -> None:
    jobs = JobMapping(None, lambda: 0.0)
    assert jobs.by_part([GPU]) == {}
    assert jobs.state() is None
