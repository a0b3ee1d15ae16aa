"""Puts chart, manifests and unit into the wheel, beside the code (`accelscope files` tells where they are).
Everything else about the package stands in pyproject.toml. The image's build does without this file: nobody
installs a chart from an image."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DEPLOYED = ("chart", "examples", "manifests", "systemd")


class BuildWithFiles(build_py):
    """An editable install has no need of copies: it finds the repository's own."""

    def run(self) -> None:
        package = Path(self.build_lib, "accelscope")
        if not self.editable_mode and package.exists():
            # pip builds in the clone and leaves this behind: what was deleted since would go into the wheel.
            shutil.rmtree(package)
        super().run()
        if not self.editable_mode:
            for name in DEPLOYED:
                shutil.copytree(Path("deploy", name), package / "files" / name)


setup(cmdclass={"build_py": BuildWithFiles})
