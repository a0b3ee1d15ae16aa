"""Device files by their names."""

from pathlib import Path

import pytest

from accelscope.vendors.furiosa.draft import card_files, card_index, core_file, folder_of

WARBOY = [
    *("npu0", "npu0pe0", "npu0pe1", "npu0pe0-1", "npu0_mgmt", "npu0ch0", "npu0ch3", "npu0_bar0", "npu0_bar4"),
    *("npu1", "npu1pe0", "npu10", "null"),
]
RNGD = (
    [f"npu0pe{core}" for core in range(8)]
    + [f"npu0pe{cores}" for cores in ("0-1", "2-3", "4-5", "6-7", "0-3", "4-7")]
    + ["npu0mgmt", "npu0ch0", "npu0ch7r", "npu0dmar", "npu0bar2", "npu1mgmt"]
)


@pytest.mark.parametrize(
    ("name", "index", "cores"),
    [
        ("npu0", 0, ()),
        ("npu12pe3", 12, (3,)),
        ("npu0pe0-1", 0, (0, 1)),
        ("rngd/npu0pe4-7", 0, (4, 5, 6, 7)),
        ("/dev/rngd/npu1pe0", 1, (0,)),
    ],
)
def test_a_file_of_cores(name: str, index: int, cores: tuple[int, ...]) -> None:
    file = core_file(name)
    assert file is not None
    assert (file.index, file.cores) == (index, cores)


@pytest.mark.parametrize(
    "name", ["npu", "npu0_mgmt", "npu0ch0", "npu0pe", "npu0pe1-0", "npu0pe0-1-2", "xnpu0", "npu٣", "npu0\n"]
)
def test_other_files_are_none(name: str) -> None:
    assert core_file(name) is None


def test_a_cards_name_is_not_that_of_a_core() -> None:
    assert card_index("npu3") == 3
    assert card_index("npu3pe0") is None


def test_files_of_a_warboy() -> None:
    files = card_files(WARBOY, 0)
    assert [file.name for file in files.cores] == ["npu0", "npu0pe0", "npu0pe1", "npu0pe0-1"]
    assert files.support == ("npu0_bar0", "npu0_bar4", "npu0_mgmt", "npu0ch0", "npu0ch3")


def test_files_of_an_rngd() -> None:
    files = card_files(RNGD, 0)
    assert [file.name for file in files.cores][-3:] == ["npu0pe6-7", "npu0pe0-3", "npu0pe4-7"]
    assert len(files.cores) == 14
    assert files.support == ("npu0bar2", "npu0ch0", "npu0ch7r", "npu0dmar", "npu0mgmt")


def test_each_family_has_its_folder() -> None:
    assert folder_of(Path("/dev"), "warboy") == Path("/dev")
    assert folder_of(Path("/dev"), "rngd") == Path("/dev/rngd")
