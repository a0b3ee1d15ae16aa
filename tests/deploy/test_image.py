"""The build of the image: wheels are selected and installed without pip."""

import hashlib
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.repository import REPOSITORY

IMAGE = REPOSITORY / "deploy" / "image"
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_install", IMAGE / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("h2-4.4.1-py3-none-any.whl", True),
        ("pyyaml-6-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", True),
        ("pyyaml-6-cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64.whl", False),
        ("pyyaml-6-cp312-cp312-manylinux2014_x86_64.whl", False),
        ("pyyaml-6-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("pyyaml-6-cp311-cp311-macosx_11_0_arm64.whl", False),
        ("protobuf-7-cp310-abi3-manylinux2014_x86_64.whl", True),
        ("protobuf-7-cp311-abi3-manylinux2014_x86_64.whl", True),
        ("protobuf-7-cp312-abi3-manylinux2014_x86_64.whl", False),
        ("protobuf-7-cp310-cp310-manylinux2014_x86_64.whl", False),
    ],
)
def test_wheels_are_selected_by_platform(install: ModuleType, name: str, fits: bool) -> None:
    assert install.fits(Path(name), "x86_64", "cp311") is fits


def wheel(folder: Path, name: str, **files: str) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path.replace("__", "/") + ".py", text)


def test_missing_wheel_is_named(install: ModuleType, tmp_path: Path) -> None:
    wheel(tmp_path, "accelscope-1-py3-none-any.whl", accelscope="")
    wheel(tmp_path, f"pyyaml-6-{PYTHON}-{PYTHON}-manylinux2014_riscv64.whl", yaml="")
    with pytest.raises(SystemExit, match="no wheel of pyyaml"):
        install.chosen(tmp_path)


def test_two_versions_of_a_wheel_are_rejected(install: ModuleType, tmp_path: Path) -> None:
    wheel(tmp_path, "accelscope-1-py3-none-any.whl", accelscope="")
    wheel(tmp_path, "accelscope-2-py3-none-any.whl", accelscope="")
    with pytest.raises(SystemExit, match="remove one of them"):
        install.chosen(tmp_path)


SOURCES = {
    "accelscope/__init__.py": '__version__ = "2"\n',
    "accelscope/cli/__init__.py": "",
    "accelscope/cli/main.py": "def main():\n    print(__cached__)\n    return 3\n",
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Sources of version 2, a lock, and the collected wheels."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "accelscope-2-py3-none-any.whl", "w") as archive:
        for name, text in SOURCES.items():
            archive.writestr(name, text)
            file = tmp_path / "src" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        archive.writestr("accelscope/files/chart/made.py", "")
    wheel(wheels, "nvidia_ml_py-13.5-py3-none-any.whl", pynvml="")
    digest = hashlib.sha256((wheels / "nvidia_ml_py-13.5-py3-none-any.whl").read_bytes()).hexdigest()
    hashes = f"    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{digest}\n    # via accelscope\n"
    not_here = f"numpy==2 ; python_full_version < '3.11' \\\n    --hash=sha256:{'1' * 64}\n"
    (tmp_path / "agent.txt").write_text(f"# made\nnvidia-ml-py==13.5 \\\n{hashes}{not_here}")
    return tmp_path


def installed(clone: Path) -> subprocess.CompletedProcess[str]:
    options = ["--lock", "agent.txt", "--wheels", "wheels", "--into", str(clone / "installed")]
    return subprocess.run(
        [sys.executable, str(IMAGE / "install.py"), *options],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_installs_a_command_with_bytecode(clone: Path) -> None:
    made = installed(clone)
    assert made.returncode == 0, made.stderr
    command = str(clone / "installed" / "bin" / "accelscope")
    done = subprocess.run([command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert Path(done.stdout.strip()).exists(), "compiled: a read-only root keeps no bytecode"


def older_of_ours(clone: Path) -> None:
    (clone / "wheels" / "accelscope-2-py3-none-any.whl").rename(
        clone / "wheels" / "accelscope-1-py3-none-any.whl"
    )


def other_sources(clone: Path) -> None:
    (clone / "src" / "accelscope" / "cli" / "main.py").write_text("def main():\n    return 4\n")


def source_that_was_deleted(clone: Path) -> None:
    (clone / "src" / "accelscope" / "cli" / "main.py").unlink()


def one_missing(clone: Path) -> None:
    (clone / "wheels" / "nvidia_ml_py-13.5-py3-none-any.whl").unlink()


def one_too_many(clone: Path) -> None:
    wheel(clone / "wheels", "grpcio-1.85-py3-none-any.whl", grpc="")


def older_of_others(clone: Path) -> None:
    one_missing(clone)
    wheel(clone / "wheels", "nvidia_ml_py-12-py3-none-any.whl", pynvml="")


def another_file(clone: Path) -> None:
    one_missing(clone)
    wheel(clone / "wheels", "nvidia_ml_py-13.5-py3-none-any.whl", pynvml="import os")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (older_of_ours, "accelscope is 1, not 2"),
        (other_sources, "accelscope-2-py3-none-any.whl was built from other sources"),
        (source_that_was_deleted, "accelscope-2-py3-none-any.whl was built from other sources"),
        (one_missing, "nvidia-ml-py 13.5 is missing"),
        (one_too_many, "grpcio 1.85 is not in the lock"),
        (older_of_others, "nvidia-ml-py is 12, not 13.5"),
        (another_file, "nvidia_ml_py-13.5-py3-none-any.whl has a hash that is not in the lock"),
    ],
)
def test_wheels_of_another_lock_or_version_are_rejected(
    clone: Path, change: Callable[[Path], None], said: str
) -> None:
    change(clone)
    done = installed(clone)
    assert done.returncode == 1
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.stderr == (
        f"install.py: wheels does not match agent.txt and these sources: {said}. Run"
        f" deploy/image/collect-wheels --lock agent --python {python} again, or remove wheels to have them"
        " fetched\n"
    )
    assert not (clone / "installed").exists()


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13, 1)])
@pytest.mark.parametrize("lock", ["agent", "device-plugin", "fleet"])
def test_locks_are_read_as_pip_reads_them(install: ModuleType, lock: str, python: tuple[int, ...]) -> None:
    text = (REPOSITORY / "requirements" / f"{lock}.txt").read_text()
    version = ".".join(map(str, (*python, 0)[:3]))
    wanted = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line.split("--hash")[0].strip())
            marker = requirement.marker
            if marker is None or marker.evaluate({"python_full_version": version}):
                wanted[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    found = install.pins(text, python)
    assert {name: pin.version for name, pin in found.items()} == wanted
    assert all(pin.hashes for pin in found.values())


def test_unknown_marker_is_named(install: ModuleType) -> None:
    text = f"numpy==2 ; sys_platform == 'win32' \\\n    --hash=sha256:{'1' * 64}\n"
    with pytest.raises(SystemExit, match="sys_platform == 'win32'"):
        install.pins(text, (3, 11))


def locked(file: Path) -> dict[str, set[str]]:
    """(name, version) -> hashes."""
    pinned = re.compile(r"^(\S+==\S+).*\n((?: +--hash=.+\n)+)", re.MULTILINE)
    return {pin: set(re.findall(r"sha256:\w+", hashes)) for pin, hashes in pinned.findall(file.read_text())}


def test_image_is_built_with_the_tested_setuptools() -> None:
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"]
    build = locked(IMAGE / "build.txt")
    assert {pin.partition("==")[0] for pin in build} == {re.split(r"[<>=~!]", each)[0] for each in wanted}
    assert build.items() <= locked(REPOSITORY / "requirements" / "dev.txt").items()
    assert all(build.values())


def test_everything_is_fetched_by_hash(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    install.fetch(Path("lock.txt"), tmp_path / "wheels")
    assert len(commands) == 3
    for command in commands:
        assert "--no-deps" in command, "what is locked is the whole list"
        assert "--require-hashes" in command or {"--no-index", "--no-build-isolation"} <= set(command)


def test_page_of_the_fleet_is_built_from_locked_packages(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    install.fetch(Path("requirements/fleet.txt"), tmp_path / "wheels")
    [node] = [command for command in commands if "requirements/node.txt" in command]
    assert "--require-hashes" in node
    npm = [command[2:] for command in commands if command[0].endswith("/node")]
    assert [words[0] for words in npm] == ["install", "run"]
    assert "--no-save" in npm[0], "nothing but the lock decides"
    assert commands.index(node) < len(commands) - 3
    assert "wheel" in commands[-1]


def wheel_with_page(folder: Path, *pages: str) -> zipfile.ZipFile:
    with zipfile.ZipFile(folder / "accelscope-1-py3-none-any.whl", "w") as archive:
        for name in ("accelscope/fleet/page.py", *pages):
            archive.writestr(name, "")
    return zipfile.ZipFile(folder / "accelscope-1-py3-none-any.whl")


PAGE = ("accelscope/fleet/page/static/index.html", "accelscope/fleet/page/static/assets/main.js")


@pytest.mark.parametrize(("lock", "unpacked"), [("fleet", 3), ("device-plugin", 1), ("agent", 1)])
def test_page_is_only_in_the_image_of_the_fleet(
    install: ModuleType, tmp_path: Path, lock: str, unpacked: int
) -> None:
    with wheel_with_page(tmp_path, *PAGE) as archive:
        assert len(install.members(archive, Path(f"requirements/{lock}.txt"))) == unpacked


def test_image_of_the_fleet_requires_the_page(install: ModuleType, tmp_path: Path) -> None:
    with wheel_with_page(tmp_path) as archive, pytest.raises(SystemExit, match="collect-wheels --lock fleet"):
        install.members(archive, Path("requirements/fleet.txt"))


def test_wheels_of_others_need_no_page(install: ModuleType, tmp_path: Path) -> None:
    wheel(tmp_path, "h2-4.4.1-py3-none-any.whl", h2="")
    with zipfile.ZipFile(tmp_path / "h2-4.4.1-py3-none-any.whl") as archive:
        assert install.members(archive, Path("requirements/fleet.txt")) == ["h2.py"]


def test_base_is_an_argument_by_tag() -> None:
    text = (IMAGE / "Dockerfile").read_text()
    assert "ARG BASE=" in text
    assert "@sha256" not in text
    assert text.count("FROM ${BASE}") == 2
    assert "USER 65532:65532" in text


@pytest.mark.parametrize("lock", ["agent", "device-plugin", "fleet", "node"])
def test_every_lock_is_in_the_context(lock: str) -> None:
    assert (REPOSITORY / "requirements" / f"{lock}.txt").exists()
    assert f"!requirements/{lock}.txt" in (REPOSITORY / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("lock", ["agent", "device-plugin", "fleet"])
def test_every_lock_can_be_collected(lock: str) -> None:
    collector = [sys.executable, str(IMAGE / "collect-wheels"), "--lock", lock, "--help"]
    assert subprocess.run(collector, capture_output=True, check=False, timeout=60).returncode == 0


def test_build_context_contains_only_what_the_image_needs() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    copied = [
        line.split()[1:-1]
        for line in (IMAGE / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
    ]
    sources = {name for names in copied for name in names if not name.startswith(("--", "/"))}
    assert "*" in ignored
    assert all(f"!{source}" in ignored for source in sources)
