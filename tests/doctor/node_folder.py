"""A node as a folder that a test fills."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.doctor import Subject
from accelscope.doctor.check import User


class NodeFolder:
    """`/proc`, `/sys` and `/dev` of a node, and the root folder of the doctor's process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("proc", "sys", "dev", "root"):
            (folder / name).mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def link(self, name: str, target: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def gpu(self, address: str, driver: str | None = "nvidia", *, kind: str = "0x030200") -> None:
        pci = f"sys/bus/pci/devices/{address}"
        self.write({f"{pci}/vendor": "0x10de\n", f"{pci}/device": "0x2330\n", f"{pci}/class": f"{kind}\n"})
        if driver is not None:
            self.link(f"{pci}/driver", f"../../../bus/pci/drivers/{driver}")

    def module(self, version: str = "550.54.15") -> None:
        self.write({"sys/module/nvidia/version": f"{version}\n"})

    def device_files(self, *names: str) -> None:
        self.write({f"dev/{name}": "" for name in names})

    def subject(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        at: float | None = None,
        uid: int = 1000,
    ) -> Subject:
        values = {
            "proc_root": str(self.folder / "proc"),
            "sys_root": str(self.folder / "sys"),
            "dev_root": str(self.folder / "dev"),
            "nvml_library": str(self.folder / "no-library"),
            "nvidia_smi_path": str(self.folder / "no-tool"),
            **(settings or {}),
        }
        loaded = load(AgentSettings, values, environ or {})
        made = Subject(
            loaded=loaded,
            environ=environ or {},
            root=self.folder / "root",
            user=User(uid, frozenset({uid})),
        )
        if at is None:
            return made
        return Subject(loaded=loaded, environ=made.environ, root=made.root, user=made.user, clock=lambda: at)


@pytest.fixture
def node(open_folder: Path) -> NodeFolder:
    return NodeFolder(open_folder)
