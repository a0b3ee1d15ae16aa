"""Programs run as if this machine were the node, and leave the machine as it is."""

from pathlib import Path

import pytest
from tests.reality.namespace import Place
from tests.reality.programs import TRIXIE

pytestmark = pytest.mark.usefixtures("namespaces")

_LIST = "ls /sys; echo --; ls /dev; echo --; cat /proc/4242/comm; exec cat /proc/self/comm"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    for name, text in {"sys/only/here": "", "dev/gpu0": "", "proc/4242/comm": "train\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("suite", [None, TRIXIE], ids=["of this machine", "of Debian trixie"])
def test_a_program_sees_the_node_in_place_of_the_machine(node: Path, suite: object) -> None:
    root = str(TRIXIE.root()) if suite else None
    done = Place(node=str(node), root=root).run(["sh", "-c", _LIST])
    sys, dev, proc = (part.split() for part in done.stdout.split("--\n"))
    assert sys == ["only"]
    assert {"gpu0", "null", "shm", "urandom"} <= set(dev)
    assert not {"sda", "vda", "nvidia0", "nvidiactl"} & set(dev)
    assert proc == ["train", "cat"]
    assert done.stderr == ""


def test_what_a_program_writes_below_dev_is_gone_with_it(node: Path) -> None:
    done = Place(node=str(node)).run(["mknod", "/dev/nvidiactl-of-a-test", "c", "195", "255"])
    assert done.returncode == 0
    assert not Path("/dev/nvidiactl-of-a-test").exists()
    assert not (node / "dev" / "nvidiactl-of-a-test").exists()


def test_a_wrapper_script_passes_its_arguments(node: Path, tmp_path: Path) -> None:
    wrapper = Place(node=str(node)).write_wrapper(tmp_path / "tool", "/bin/echo")
    done = Place().run([wrapper, "a b", "c"])
    assert done.stdout == "a b c\n"
