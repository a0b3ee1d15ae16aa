"""Execution of a plan with tools that fail or hang, trees of files, and the archive."""

import io
import json
import os
import re
import tarfile
from importlib import import_module
from pathlib import Path

import pytest
from tests import programs
from tests.waiting import growing_patience

from accelscope.capture import Command, Gathered, Mask, Plan, Tree, gather, write_archive
from accelscope.capture.plan import plans
from accelscope.model import Vendor
from accelscope.parsing import sources
from accelscope.vendors import declarations
from accelscope.vendors.ascend import capture as ascend
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.nvidia import NVIDIA_SMI


def options(folder: Path, script: str = "", *, seconds: float = 60.0) -> ReaderOptions:
    tool = folder / "bin/nvidia-smi"
    for name in ("bin", "proc", "sys", "dev"):
        (folder / name).mkdir(exist_ok=True)
    if script:
        programs.script(tool, script)
    paths = Paths(proc=folder / "proc", sys=folder / "sys", dev=folder / "dev")
    declared = (setting for vendor in declarations().values() for setting in vendor.settings)
    tools = {setting.name: str(folder / "none") for setting in declared} | {NVIDIA_SMI.name: str(tool)}
    return ReaderOptions(paths, tools, tool_timeout_seconds=seconds)


def plan(*arguments: str, trees: tuple[Tree, ...] = ()) -> Plan:
    commands = tuple(Command(f"x-{argument}", NVIDIA_SMI, (argument,)) for argument in arguments)
    return Plan(Vendor("nvidia"), commands, trees)


def test_output_standard_error_and_exit_code_are_saved(tmp_path: Path) -> None:
    script = 'echo "out $1"; echo "err $1" >&2; exit 3'
    [one] = gather([plan("a")], options(tmp_path, script))
    assert (one.text, one.complaint, one.exit_code, one.error) == ("out a\n", "err a\n", 3, None)
    assert one.origin == "nvidia-smi a"


def test_a_node_without_drivers_gives_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    assert gather(plans(), options(tmp_path), said.append) == ()
    captured = [vendor.name for vendor in declarations().values() if vendor.capture_plan]
    assert said == [f"{vendor}: not on this node" for vendor in captured]


def test_a_tool_that_hangs_twice_is_not_run_again(tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    script = f"case $1 in ok) echo fine; echo yes > {answered};; *) sleep 600;; esac"
    for seconds in growing_patience(1.0, answered):
        found = gather([plan("ok", "a", "b", "c", "d")], options(tmp_path, script, seconds=seconds))
    reasons = [None if one.error is None else one.error[0] for one in found]
    assert reasons == [None, "tool_timeout", "tool_timeout", "skipped", "skipped"]


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    [one] = gather([plan("a")], options(tmp_path, "printf 'a\\377b\\n'"))
    assert one.text == "a\N{REPLACEMENT CHARACTER}b\n"


def test_later_commands_depend_on_earlier_outputs(tmp_path: Path) -> None:
    asked = Plan(
        Vendor("nvidia"),
        (Command("first", NVIDIA_SMI, ("list",)),),
        (),
        then=lambda outputs: [Command("then", NVIDIA_SMI, (n,), n) for n in outputs["first"].split()],
    )
    script = 'case $1 in list) echo "7 9";; *) echo "card $1";; esac'
    found = gather([asked], options(tmp_path, script))
    assert [(one.tag, one.text) for one in found[1:]] == [("7", "card 7\n"), ("9", "card 9\n")]


def test_there_is_a_command_for_each_npu_and_chip() -> None:
    listed = "        Total Count : 2\n        NPU ID : 8\n        Chip Count : 1\n        NPU ID : 32768\n"
    mapped = (
        "        NPU ID     Chip ID     Chip Logic ID     Chip Name\n"
        "        8          0           0                 Ascend 910A\n"
        "        8          1           -                 Mcu\n"
        "        32768      0           1                 Ascend 910A\n"
    )
    commands = [c.text for c in ascend.PLAN.then({"npu-smi-list": listed, "npu-smi-map": mapped})]
    assert "npu-smi info -t usages -i 32768" in commands
    assert "npu-smi info -t health -i 8 -c 0" in commands
    assert not any("-c 1" in command for command in commands)


def test_trees_are_one_text(tmp_path: Path) -> None:
    given = options(tmp_path)
    card = tmp_path / "sys/class/drm/card0/device"
    (card / "hwmon/hwmon3").mkdir(parents=True)
    (card / "vendor").write_text("0x1002\n")
    (card / "hwmon/hwmon3/temp1_input").write_text("36000")
    (card / "unnamed").write_text("not asked for\n")
    (card / "binary").write_bytes(b"\xff\xfe\x00")
    other = tmp_path / "sys/class/drm/card1/device"
    other.mkdir(parents=True)
    (other / "vendor").write_text("0x8086\n")
    tree = Tree(
        "t",
        "sys",
        ("class/drm/card[0-9]*/device",),
        ("vendor", "binary", "hwmon/hwmon*/*_input"),
        only=("vendor", "0x1002"),
    )
    [one] = gather([plan(trees=(tree,))], given)
    assert one.text == (
        "=== /sys/class/drm/card0/device/binary (binary, 3 bytes, left out)\n"
        "=== /sys/class/drm/card0/device/hwmon/hwmon3/temp1_input\n36000\n"
        "=== /sys/class/drm/card0/device/vendor\n0x1002\n"
    )


def test_a_file_is_read_whole_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(tmp_path)
    pages = "".join(f"0x{n:08x} : 0x00001000 : R\n" for n in range(300))
    (tmp_path / "sys/card0").mkdir(parents=True)
    (tmp_path / "sys/card0/bad_pages").write_text(pages)
    whole = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, most: whole(descriptor, min(most, 4096)))
    [one] = gather([plan(trees=(Tree("t", "sys", ("card*",), ("bad_pages",)),))], given)
    assert one.text == f"=== /sys/card0/bad_pages\n{pages}"


def test_a_file_of_bytes_is_saved_as_hexadecimal(tmp_path: Path) -> None:
    given = options(tmp_path)
    (tmp_path / "sys/card0").mkdir(parents=True)
    (tmp_path / "sys/card0/table").write_bytes(bytes(range(17)))
    tree = Tree("t", "sys", ("card*",), ("table",), binary=("table",))
    [one] = gather([plan(trees=(tree,))], given)
    assert one.text == (
        "=== /sys/card0/table (hexadecimal)\n00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n10\n"
    )
    mask = Mask()
    mask.learn([one.text])
    assert mask.apply(one.source, one.text) == one.text


def test_a_link_to_a_folder_is_saved_with_its_target(tmp_path: Path) -> None:
    given = options(tmp_path)
    hive = tmp_path / "sys/card0/hive"
    hive.mkdir(parents=True)
    (hive / "node1").symlink_to("../../0000:0c:00.0")
    (hive / "folder").mkdir()
    [one] = gather([plan(trees=(Tree("t", "sys", ("card*",), ("hive/*",)),))], given)
    assert one.text == "=== /sys/card0/hive/node1 (link to ../../0000:0c:00.0)\n"


def test_only_open_device_files_are_read_in_proc_and_only_for_a_vendor_that_is_present(
    tmp_path: Path,
) -> None:
    given = options(tmp_path)
    process = tmp_path / "proc/77"
    for number, target in (("3", "/dev/dri/renderD128"), ("4", "/home/alice/secret")):
        (process / "fd").mkdir(parents=True, exist_ok=True)
        (process / "fdinfo").mkdir(exist_ok=True)
        (process / "fd" / number).symlink_to(target)
        (process / "fdinfo" / number).write_text(f"pos: {number}\n")
    opened = Tree(
        "opened", "proc", ("[0-9]*/fdinfo",), ("[0-9]*",), opened=re.compile("/dev/dri/.*"), shared=True
    )
    own = Tree("own", "sys", ("card*",), ("vendor",))
    assert gather([plan(trees=(opened, own))], given) == ()
    (tmp_path / "sys/card0").mkdir(parents=True)
    (tmp_path / "sys/card0/vendor").write_text("0x1002\n")
    found = gather([plan(trees=(opened, own))], given)
    assert [one.source for one in found] == ["own", "opened"]
    assert found[1].text == "=== /proc/77/fdinfo/3 (of /dev/dri/renderD128)\npos: 3\n"


def test_a_device_that_sleeps_is_not_woken(tmp_path: Path) -> None:
    given = options(tmp_path)
    card = tmp_path / "sys/card0"
    (card / "power").mkdir(parents=True)
    (card / "power/runtime_status").write_text("suspended\n")
    (card / "busy").write_text("1\n")
    (card / "vendor").write_text("0x1002\n")
    asleep = ("power/runtime_status", "suspend")
    tree = Tree("t", "sys", ("card*",), ("busy", "vendor"), asleep=asleep, asleep_files=("vendor",))
    [one] = gather([plan(trees=(tree,))], given)
    assert one.text == ("=== /sys/card0/power/runtime_status\nsuspended\n=== /sys/card0/vendor\n0x1002\n")


def test_a_file_that_hangs_ends_its_tree(tmp_path: Path) -> None:
    given = options(tmp_path)
    card = tmp_path / "sys/card0"
    card.mkdir()
    (card / "a").write_text("1\n")
    os.mkfifo(card / "b")
    (card / "c").write_text("2\n")
    tree = Tree("t", "sys", ("card*",), ("a", "b", "c"))
    [one] = gather([plan(trees=(tree,))], given, tree_seconds=1.0)
    assert one.error
    assert one.error[0] == "read_timeout"
    assert one.text == "=== /sys/card0/a\n1\n"
    os.close(os.open(card / "b", os.O_WRONLY | os.O_NONBLOCK))  # let the thread go


def test_an_unexpected_error_affects_one_tree_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> bytes:
        if path.endswith("b"):
            raise ValueError("unexpected")
        return b"1\n"

    given = options(tmp_path)
    (tmp_path / "sys/card0").mkdir()
    for name in ("a", "b"):
        (tmp_path / "sys/card0" / name).touch()
    monkeypatch.setattr(import_module("accelscope.capture.gather"), "read_whole", read)
    [one] = gather([plan(trees=(Tree("t", "sys", ("card*",), ("a", "b")),))], given)
    assert one.error
    assert one.text == "=== /sys/card0/a\n1\n"


def test_the_cgroup_of_a_process_on_a_device_is_saved(tmp_path: Path) -> None:
    script = "printf 'gpu_uuid, pid, process_name, used_gpu_memory [MiB]\\nGPU-1, 77, x, 1 MiB\\n'"
    given = options(tmp_path, script)
    (tmp_path / "proc/77").mkdir()
    (tmp_path / "proc/77/cgroup").write_text("0::/x\n")
    asked = Plan(Vendor("nvidia"), (Command("nvidia-smi-compute-apps", NVIDIA_SMI, ()),), ())
    found = gather([asked], given)
    assert [(one.source, one.text) for one in found[1:]] == [
        ("proc-cgroup", "0::/x\n"),
        ("proc-mountinfo", None),
    ]
    assert found[2].error
    assert found[2].error[0] == "unreadable_mountinfo"


def archive(gathered: tuple[Gathered, ...], mask: Mask | None) -> bytes:
    output = io.BytesIO()
    write_archive(output, gathered, hide=None if mask is None else mask.apply)
    return output.getvalue()


GATHERED = (
    Gathered("nvidia", "nvidia-smi-list", "nvidia-smi -L", text="GPU 0: NVIDIA H100 (UUID: GPU-1)\n"),
    Gathered("nvidia", "nvidia-smi-topo", "nvidia-smi topo -m", exit_code=1, text="", complaint="no\n"),
    Gathered("nvidia", "nvidia-smi-xml", "nvidia-smi -q -x", error=("tool_timeout", "gave no answer")),
)


def test_the_same_outputs_give_the_same_bytes() -> None:
    assert archive(GATHERED, Mask()) == archive(GATHERED, Mask())


def test_files_of_the_archive() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(GATHERED, Mask()))) as opened:
        names = opened.getnames()
        member = opened.extractfile("accelscope-capture/manifest.json")
        assert member is not None
        manifest = json.load(member)
        assert all(info.mtime == 0 and info.uid == 0 and not info.uname for info in opened.getmembers())
    assert names == [
        "accelscope-capture/README.txt",
        "accelscope-capture/manifest.json",
        "accelscope-capture/nvidia/nvidia-smi-list_nvidia-h100_unknown.txt",
        "accelscope-capture/nvidia/nvidia-smi-topo_nvidia-h100_unknown.txt",
    ]
    assert manifest["masked"] is True
    assert manifest["vendors"] == {"nvidia": {"model": "NVIDIA H100", "devices": 1}}
    listed, topo, failed = manifest["files"]
    assert listed["path"] == "nvidia/nvidia-smi-list_nvidia-h100_unknown.txt"
    assert (topo["exit_code"], topo["complaint"]) == (1, "no\n")
    assert (failed["path"], failed["error"]["reason"]) == (None, "tool_timeout")


def test_every_tool_output_that_parse_reads_is_in_a_plan() -> None:
    planned = {command.source for plan in plans() for command in plan.commands}
    planned |= {f"npu-smi-{kind}" for kind in ("board", "usages", "common", "ecc", "proc-mem", "health")}
    planned |= {"nvidia-smi-query-gpu", "proc-cgroup", "proc-mountinfo"}
    # The same values as rocm-smi-json and nvidia-smi-xml; files of the kubelet, and a setting of ours.
    left_out = {"rocm-smi-csv", "rocm-smi-table", "nvidia-smi-table", "kubelet-checkpoint", "gpu-allocation"}
    assert set(sources()) - left_out <= planned
