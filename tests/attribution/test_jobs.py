"""Which device or part of it a file of the job-mapping folder means."""

from pathlib import Path
from typing import BinaryIO

import pytest

from accelscope.attribution import job_mapping
from accelscope.attribution.jobs import Jobs
from accelscope.filewatch import open_regular
from accelscope.model import Device, Partition, Vendor

GPU_UUID = "GPU-11111111-2222-3333-4444-555555555555"
MIG_UUID = "MIG-11111111-2222-3333-4444-555555555555"
INSTANCE = Partition(id="inst", uuid=MIG_UUID, gpu_instance_id=7, compute_instance_id=0)
GPU = Device(vendor=Vendor.NVIDIA, id="nvidia:a", index=0, uuid=GPU_UUID, partitions=(INSTANCE,))
AMD = Device(vendor=Vendor.AMD, id="amd:b", index=0)
NPU = Device(vendor=Vendor.ASCEND, id="ascend:c", index=0)


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
        (MIG_UUID, [GPU], ("nvidia:a", "inst")),
    ],
)
def test_what_a_file_means(
    tmp_path: Path, name: str, devices: list[Device], part: tuple[str, str | None] | None
) -> None:
    (tmp_path / name).write_text("17\n")
    assert Jobs(tmp_path, lambda: 0.0).by_part(devices) == ({} if part is None else {part: ("17",)})


def test_a_file_that_cannot_be_read_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, job in (("0", "17"), ("1", "denied"), ("2", "18")):
        (tmp_path / name).write_text(f"{job}\n")

    def denied(path: Path) -> BinaryIO:
        if path.name == "1":
            raise PermissionError(13, "Permission denied", str(path))
        return open_regular(path)

    monkeypatch.setattr(job_mapping, "open_regular", denied)
    second = Device(vendor=Vendor.NVIDIA, id="nvidia:b", index=2)
    jobs = Jobs(tmp_path, lambda: 0.0)
    assert jobs.by_part([GPU, second]) == {("nvidia:a", None): ("17",), ("nvidia:b", None): ("18",)}
    state = jobs.state()
    assert state is not None
    assert (state.up, state.reason) == (False, "unreadable")
