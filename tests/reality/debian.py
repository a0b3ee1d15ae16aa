"""Programs of Debian suites, unpacked below the cache: nothing is installed on this machine.

apt resolves and downloads the packages with folders of its own, dpkg-deb unpacks them. A released suite is
fetched once. A moving one (sid, experimental) is fetched again every week; without the archive, the last tree
is used.
"""

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError

_MIRROR = "http://deb.debian.org/debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the programs need beside their own dependencies: a shell and what Python scripts call.
_BASE = ("base-files", "bash", "coreutils", "dash", "grep", "kmod", "python3", "sed", "util-linux")
# Debian's root has links where packages have folders, and these folders are mount points (namespace.py).
_MERGED = ("bin", "sbin", "lib", "lib64")
_MOUNT_POINTS = ("dev", "media", "proc", "root", "run", "sys", "tmp", "var/log")
_NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_SECONDS = 900.0
_APT = """\
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Etc::sourcelist "{folder}/debian.sources";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
Dir::Cache "{folder}/cache";
APT::Install-Recommends "0";
APT::Architectures "amd64";
APT::Sandbox::User "root";
Acquire::Languages "none";
Debug::NoLocking "1";
"""
_SOURCES = """\
Types: deb
URIs: {mirror}
Suites: {suites}
Components: main contrib non-free
Signed-By: {keyring}
"""


class NotInArchive(ClusterError):
    """The suite has none of the wanted programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What is fetched: programs of one suite. Programs that the suite does not have are left out."""

    suite: str
    programs: tuple[str, ...]  # packages
    base_suite: str | None = None  # where the rest comes from, for a suite that is not complete
    moving: bool = False

    def root(self, say: Say = to_stderr) -> Path:
        """The tree, fetched if it is not in the cache. Raises NotInArchive and ClusterError."""
        parts = (self.suite, self.base_suite or "", *self.programs, *_BASE, *_MOUNT_POINTS, _APT, _SOURCES)
        name = f"{self.suite}-{key_of(parts)}"
        trees = cache_folder() / "debian"
        week = time.strftime("-%G-%V", time.gmtime()) if self.moving else ""
        try:
            folder = made_once(
                trees / f"{name}{week}", self._fetch, f"Debian {self.suite}", say=say, seconds=_SECONDS
            )
        except ClusterError as error:
            earlier = sorted(trees.glob(f"{name}-????-??"))
            if not earlier or isinstance(error, NotInArchive):
                raise
            say(f"Debian {self.suite}: {error}; using {earlier[-1].name}")
            folder = earlier[-1]
        for old in trees.glob(f"{name}-????-??") if self.moving else ():
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        return folder

    def versions(self) -> Mapping[str, str]:
        """Versions of the programs in the tree."""
        lines = (self.root() / "versions").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def _fetch(self, root: Path) -> None:
        apt = root.with_name(f"{root.name}.apt")
        shutil.rmtree(apt, ignore_errors=True)
        for name in ("lists/partial", "cache/archives/partial"):
            (apt / name).mkdir(parents=True)
        (apt / "status").touch()
        suites = " ".join(suite for suite in (self.suite, self.base_suite) if suite)
        (apt / "debian.sources").write_text(
            _SOURCES.format(mirror=_mirror(), suites=suites, keyring=_KEYRING)
        )
        (apt / "apt.conf").write_text(_APT.format(folder=apt))
        environment = {"APT_CONFIG": str(apt / "apt.conf"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        run(["apt-get", "-qq", "update"], environment=environment, seconds=_SECONDS)
        versions = {program: self._version(program, environment) for program in self.programs}
        found = {program: version for program, version in versions.items() if version is not None}
        if not found:
            raise NotInArchive(f"Debian {self.suite} has none of {', '.join(self.programs)}")
        wanted = (f"{program}={version}" for program, version in found.items())
        target = ("-t", self.suite) if self.base_suite else ()
        run(
            ["apt-get", "-qq", "-y", *target, "--download-only", "install", *wanted, *_BASE],
            environment=environment,
            seconds=_SECONDS,
        )
        for name in _MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        for package in sorted((apt / "cache" / "archives").glob("*.deb")):
            _unpack(package, root)
        for name in _NEEDLESS:
            shutil.rmtree(root / name, ignore_errors=True)
        for name in _MOUNT_POINTS:
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "versions").write_text("".join(f"{name}={version}\n" for name, version in found.items()))
        shutil.rmtree(apt)

    def _version(self, program: str, environment: Mapping[str, str]) -> str | None:
        """The version that this suite has, not its base."""
        listed = run(["apt-cache", "madison", program], environment=environment)
        for line in listed.splitlines():
            _, version, source = (word.strip() for word in line.split("|"))
            if re.search(rf" {self.suite}/", source):
                return version
        return None


def _unpack(package: Path, root: Path) -> None:
    archive = root.with_name(f"{root.name}.tar")
    try:
        run(["sh", "-c", 'dpkg-deb --fsys-tarfile "$0" > "$1"', package, archive])
        run(["tar", "--extract", "--keep-directory-symlink", f"--file={archive}", f"--directory={root}"])
    finally:
        archive.unlink(missing_ok=True)


def _mirror() -> str:
    """The one that this machine uses."""
    try:
        text = Path("/etc/apt/sources.list.d/debian.sources").read_text()
    except OSError:
        return _MIRROR
    found = re.search(r"^URIs: (\S+)", text, re.MULTILINE)
    return found[1] if found else _MIRROR
