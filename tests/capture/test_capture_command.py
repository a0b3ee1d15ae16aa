"""`accelscope capture` on a simulated node, as people run it."""

import errno
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO

import pytest
from tests.costless import costless
from tests.programs import script

from accelscope import capture
from accelscope.cli.main import main
from accelscope.config.settings import flag_name
from accelscope.model.wire import plain
from accelscope.parsing import sources
from accelscope.simulate import SimulatedNode, load_node
from accelscope.vendors import declarations

HOST = "gpu-07"
USER = "alice"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    made = SimulatedNode(load_node("nvidia-mig"), tmp_path_factory.mktemp("capture") / "node")
    made.build(120.0)
    return made


def run(
    node: SimulatedNode | None, *arguments: str, folder: Path, output: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[bytes]":
    users = folder / "passwd"
    users.write_text(f"root:x:0:0::/root:/bin/sh\n{USER}:x:1001:1001::/home/{USER}:/bin/sh\n")
    settings = {} if node is None else node.agent_settings()
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "accelscope",
            "capture",
            f"--node-name={HOST}",
            f"--passwd-file={users}",
            *flags,
            *arguments,
        ],
        stdout=output,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        cwd=folder,
    )


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as opened:
        members = [member for member in opened.getmembers() if member.isfile()]
        return {m.name.removeprefix("accelscope-capture/"): _text(opened, m) for m in members}


def _text(opened: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = opened.extractfile(member)
    assert content is not None
    return content.read().decode()


@pytest.fixture(scope="module")
def archives(
    node: SimulatedNode, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], dict[str, str]]:
    """The node's archive, masked and not."""
    folder = tmp_path_factory.mktemp("archives")
    masked, bare = (
        run(node, f"--output={name}", *options, folder=folder)
        for name, options in (("masked.tar.gz", []), ("bare.tar.gz", ["--no-mask"]))
    )
    assert (masked.returncode, bare.returncode) == (0, 0), masked.stderr + bare.stderr
    assert b"NOT MASKED" in bare.stderr
    assert b"NOT MASKED" not in masked.stderr
    assert (folder / "masked.tar.gz").stat().st_mode & 0o077 == 0
    return unpacked(folder / "masked.tar.gz"), unpacked(folder / "bare.tar.gz")


def test_the_archive_contains_every_source_of_the_node(
    archives: tuple[dict[str, str], dict[str, str]],
) -> None:
    masked, _ = archives
    manifest = json.loads(masked["manifest.json"])
    by_source = {entry["source"]: entry for entry in manifest["files"]}
    assert {
        "nvidia-smi-xml",
        "nvidia-smi-query-gpu",
        "nvidia-smi-pmon",
        "nvidia-smi-compute-apps",
        "nvidia-smi-list",
        "nvidia-smi-version",
        "nvidia-proc",
        "proc-cgroup",
        "proc-mountinfo",
    } <= set(by_source)
    assert all(entry["path"] in masked for entry in manifest["files"] if entry["path"])
    assert manifest["vendors"]["nvidia"]["model"] == "NVIDIA H100 80GB HBM3"
    assert re.fullmatch(
        r"nvidia/nvidia-smi-xml_nvidia-h100-80gb-hbm3x3_[0-9.]+\.txt", by_source["nvidia-smi-xml"]["path"]
    )


def test_no_identifier_of_the_node_is_left(archives: tuple[dict[str, str], dict[str, str]]) -> None:
    masked, bare = archives
    whole, original = "\n".join(masked.values()), "\n".join(bare.values())
    secrets = set(re.findall(r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}", original))
    secrets |= set(re.findall(r"<serial>([0-9]+)</serial>", original))
    secrets |= set(re.findall(r"[0-9a-f]{64}", original))
    secrets |= set(re.findall(r"(?<=>)/\S+(?=</process_name>)", original))
    assert len(secrets) > 10
    assert not [secret for secret in secrets if secret in whole]
    assert HOST not in whole
    assert USER not in whole


def test_masked_outputs_parse_to_the_same_values(archives: tuple[dict[str, str], dict[str, str]]) -> None:
    masked, bare = archives
    known = sources()
    compared = 0
    for entry in json.loads(masked["manifest.json"])["files"]:
        if entry["source"] not in known or not entry["path"] or entry["group"] == "proc":
            continue
        before, after = (known[entry["source"]].parse(files[entry["path"]], None) for files in (bare, masked))
        assert _numbers(plain(after.devices)) == _numbers(plain(before.devices))
        assert _numbers(plain(after.processes)) == _numbers(plain(before.processes))
        compared += 1
    assert compared >= 5


def _numbers(value: object) -> object:
    identity = {"id", "uuid", "serial", "device", "partition"}
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items() if key not in identity}
    return [_numbers(item) for item in value] if isinstance(value, list) else value


def test_a_device_has_the_same_id_in_all_files(
    archives: tuple[dict[str, str], dict[str, str]],
) -> None:
    masked, _ = archives
    known = sources()
    paths = {e["source"]: e["path"] for e in json.loads(masked["manifest.json"])["files"]}
    ids = [
        {d.id for d in known[source].parse(masked[paths[source]], None).devices}
        for source in ("nvidia-smi-xml", "nvidia-smi-query-gpu", "nvidia-smi-list")
    ]
    assert ids[0] == ids[1] == ids[2]
    processes = (
        known["nvidia-smi-compute-apps"].parse(masked[paths["nvidia-smi-compute-apps"]], None).processes
    )
    assert {process.device for process in processes} <= ids[0]


def test_the_archive_contains_the_comparison_of_readers_and_tools(
    archives: tuple[dict[str, str], dict[str, str]],
) -> None:
    masked, _ = archives
    [finding] = json.loads(masked["accelscope/cross-check.txt"])
    assert (finding["subject"], finding["severity"]) == ("nvidia-smi", "ok")
    assert finding["details"]["compared"] == finding["details"]["agree"] > 100
    [entry] = [e for e in json.loads(masked["manifest.json"])["files"] if e["source"] == "cross-check"]
    assert entry["origin"] == "accelscope doctor --cross-check --json"


def test_identifiers_that_differ_are_masked_in_the_comparison(tmp_path: Path, native_cache: Path) -> None:
    node = SimulatedNode(costless("nvidia-mixed"), tmp_path / "node", cache=native_cache)
    node.build(120.0)
    tool = node.agent_settings()["nvidia_smi_path"]
    changes = "s/<serial>[0-9]+</<serial>7778889990</; s/<uuid>GPU-..../<uuid>GPU-abcd/"
    bent = script(tmp_path / "nvidia-smi", f'"{tool}" "$@" | sed -E "{changes}"')
    option = f"--nvidia-smi-path={bent}"
    for name, options in (("masked.tar.gz", []), ("bare.tar.gz", ["--no-mask"])):
        assert run(node, option, f"--output={name}", *options, folder=tmp_path).returncode == 0
    masked, bare = (unpacked(tmp_path / f"{name}.tar.gz") for name in ("masked", "bare"))
    values = [
        (value, finding["details"]["field"])
        for finding in json.loads(bare["accelscope/cross-check.txt"])
        if finding["severity"] == "warning" and "field" in finding["details"]
        for value in (*finding["details"]["reader"], finding["details"]["tool"])
    ]
    assert {field for _, field in values} == {"serial", "uuid"}
    hidden = masked["accelscope/cross-check.txt"]
    assert not [value for value, _ in values if value in hidden or value.removeprefix("GPU-") in hidden]
    warnings = [finding for finding in json.loads(hidden) if finding["severity"] == "warning"]
    assert all(re.match(r"device [0-9]: (?:serial|uuid) is ", each["found"]) for each in warnings)
    assert all(re.fullmatch(r"0000:..:00\.0", each["details"]["pci_address"]) for each in warnings)


def test_dry_run_lists_and_writes_nothing(node: SimulatedNode, tmp_path: Path) -> None:
    done = run(node, "--dry-run", folder=tmp_path)
    assert done.returncode == 0
    for line in (
        b"run   nvidia-smi -q -x",
        b"run   amd-smi metric --json",
        b"run   npu-smi info -m",
        b"/PID/cgroup",
        b"accelscope doctor --cross-check",
        b"run   npu-smi info -t common -i (each NPU)",
    ):
        assert line in done.stdout
    assert not list(tmp_path.glob("*.tar.gz"))


def test_the_archive_can_go_to_standard_output(node: SimulatedNode, tmp_path: Path) -> None:
    done = run(node, "--output", "-", folder=tmp_path)
    assert done.returncode == 0
    (tmp_path / "piped").write_bytes(done.stdout)
    assert "manifest.json" in unpacked(tmp_path / "piped")


def test_a_full_standard_output_is_an_error(node: SimulatedNode, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(node, "--output", "-", folder=tmp_path, output=full.fileno())
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said == b"accelscope: cannot write the output: No space left on device"


def test_an_existing_file_is_not_overwritten(node: SimulatedNode, tmp_path: Path) -> None:
    (tmp_path / "mine.tar.gz").write_text("precious")
    done = run(node, "--output=mine.tar.gz", folder=tmp_path)
    assert done.returncode == 2
    assert b"mine.tar.gz already exists" in done.stderr
    assert (tmp_path / "mine.tar.gz").read_text() == "precious"


def test_an_unwritable_path_is_an_error_of_one_line(node: SimulatedNode, tmp_path: Path) -> None:
    done = run(node, "--output=no/such/folder/x.tar.gz", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        b"accelscope capture: cannot write no/such/folder/x.tar.gz"
    )


def test_an_incomplete_archive_is_removed(
    node: SimulatedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(output: IO[bytes], *_: object, **__: object) -> int:
        output.write(b"half of it")
        output.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    flags = [f"--{name.replace('_', '-')}={value}" for name, value in node.agent_settings().items()]
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(capture, "write_archive", full)
        assert main(["capture", *flags]) == 2
    assert "cannot write accelscope-capture.tar.gz: No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(["capture", *flags]) == 0


def test_a_node_without_accelerators(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    declared = [setting.name for vendor in declarations().values() for setting in vendor.settings]
    flags = [f"{flag_name(name)}={empty}/none" for name in declared]
    roots = [f"--{root}-root={empty}" for root in ("proc", "sys", "dev")]
    done = run(None, *flags, *roots, folder=tmp_path)
    assert done.returncode == 1
    assert b"no accelerator software found" in done.stderr
    assert not list(tmp_path.glob("*.tar.gz"))


def test_a_bad_setting_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = run(None, "--exporter-port=x", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"accelscope capture: --exporter-port")
    assert done.stderr.count(b"\n") == 1


def test_a_node_of_all_vendors(tmp_path: Path) -> None:
    mixed = SimulatedNode(costless("mixed"), tmp_path / "node")
    mixed.build(500.0)
    files = []
    for name, options in (("masked.tar.gz", []), ("bare.tar.gz", ["--no-mask"])):
        done = run(mixed, f"--output={name}", *options, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        files.append(unpacked(tmp_path / name))
    masked, bare = files
    manifest = json.loads(masked["manifest.json"])
    assert set(manifest["vendors"]) == mixed.spec.vendors.keys()
    known = sources()
    whole = "\n".join(masked.values()).lower()
    for entry in manifest["files"]:
        if entry["source"] not in known or not entry["path"]:
            continue
        before, after = (known[entry["source"]].parse(one[entry["path"]], None) for one in (bare, masked))
        assert _numbers(plain(after.devices)) == _numbers(plain(before.devices)), entry["source"]
        assert _numbers(plain(after.processes)) == _numbers(plain(before.processes)), entry["source"]
        secrets = {told.lower() for d in before.devices for told in (d.uuid, d.serial) if told}
        assert not [secret for secret in secrets if secret in whole], entry["source"]


@pytest.mark.parametrize(
    ("kind", "asked_by_readers"),
    [
        ("amd-mi300x8", ("amd-smi-static", "amd-smi-metric", "amd-smi-xgmi", "amd-smi-process")),
        ("ascend-910b-x8", ("npu-smi-usages", "npu-smi-ecc", "npu-smi-memory", "npu-smi-volt")),
    ],
)
def test_the_archive_contains_every_command_of_the_readers(
    kind: str, asked_by_readers: tuple[str, ...], tmp_path: Path
) -> None:
    node = SimulatedNode(load_node(kind), tmp_path / "node")
    node.build(60.0)
    done = run(node, f"--output={tmp_path / 'it.tar.gz'}", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = unpacked(tmp_path / "it.tar.gz")
    for source in asked_by_readers:
        [*found] = [text for name, text in kept.items() if f"/{source}_" in name]
        assert found, source
        assert all(found)
