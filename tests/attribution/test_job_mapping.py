"""Reading the files of the job-mapping folder."""

import os
from pathlib import Path

import pytest

from accelscope.attribution.shares import read_job_mapping

GPU = "GPU-7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"


@pytest.mark.parametrize(
    ("content", "jobs"),
    [
        (b"4711\n", ("4711",)),
        (b"4711", ("4711",)),
        (b"4711\r\n4712_3\r\n\r\n", ("4711", "4712_3")),
        (b"\xef\xbb\xbf 4711 \n4711\n", ("4711",)),
        (b"\xef\xbb\xbf4711\n", ("4711",)),
        (b"\xff4711\n4712\n", ("\ufffd4711", "4712")),
        (b"4711 array\n", ("4711 array",)),
        (b"a" * 64 + b"\n" + b"b" * 65 + b"\nbell\x07\n12.batch\n", ("a" * 64, "12.batch")),
        (b"1\n" + b"x" * 70_000, ("1",)),
    ],
)
def test_one_job_per_line(content: bytes, jobs: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(content)
    assert read_job_mapping(tmp_path, {"0"})[0] == {"0": jobs}


def test_a_file_that_is_too_long_ends_with_a_whole_id(tmp_path: Path) -> None:
    written = [f"job{number:05}" for number in range(10_000)]
    (tmp_path / "0").write_text("\n".join(written))
    jobs = read_job_mapping(tmp_path, {"0"})[0]["0"]
    assert 1000 < len(jobs) < len(written)
    assert list(jobs) == written[: len(jobs)]


def test_each_device_and_instance_has_its_file(tmp_path: Path) -> None:
    for name in ("0", "1", "2.7", GPU):
        (tmp_path / name).write_text(f"job-{name[:3]}\n")
    (tmp_path / "3").write_text("\n")
    assert read_job_mapping(tmp_path, {"0", "1", "2.7", "3", GPU})[0] == {
        "0": ("job-0",),
        "1": ("job-1",),
        "2.7": ("job-2.7",),
        GPU: ("job-GPU",),
    }


def test_other_files_are_ignored(tmp_path: Path) -> None:
    for name in (".0", "0.tmp", "README", "1"):
        (tmp_path / name).write_text("4711\n")
    (tmp_path / "7").mkdir()
    os.mkfifo(tmp_path / "8")
    (tmp_path / "9").symlink_to(tmp_path / "nowhere")
    assert read_job_mapping(tmp_path, {"0", "7", "8", "9"}) == ({}, [])


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("4711\n")
    (tmp_path / "0").symlink_to(tmp_path / "jobs")
    assert read_job_mapping(tmp_path, {"0"})[0] == {"0": ("4711",)}


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_folder_that_cannot_be_listed_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=name):
        read_job_mapping(tmp_path / name, {"0"})
