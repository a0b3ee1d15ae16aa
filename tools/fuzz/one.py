"""Fuzzes one source: `python -m tools.fuzz.one PACKAGE SOURCE [option of libFuzzer]... FOLDER...`"""

import sys

import atheris

from tools.fuzz.answers import examine
from tools.fuzz.seeds import sources_of


def main() -> None:
    program, package, name, *arguments = sys.argv
    with atheris.instrument_imports(include=["accelscope.vendors.common", "accelscope.attribution"]):
        source = sources_of(package)[name]

    def target(data: bytes) -> None:
        examine(source, data.decode(errors="replace"))  # as readers decode what a tool prints

    atheris.Setup([program, *arguments], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
