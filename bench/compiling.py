"""C programs of the benchmark."""

import subprocess
from pathlib import Path

_SOURCES = Path(__file__).parent / "c"


def compile_program(name: str, folder: Path, *libraries: str) -> Path:
    """The program in the folder, made from bench/c."""
    program = folder / name
    options = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra"]
    command = ["cc", *options, "-o", str(program), str(_SOURCES / f"{name}.c"), *libraries]
    subprocess.run(command, check=True, timeout=60)
    return program
