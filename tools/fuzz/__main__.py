"""`python -m tools.fuzz [SOURCE [SECONDS]]`: all sources or one. Ends with 1 where something is found."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from tools.fuzz.run import Run, fuzz
from tools.fuzz.seeds import packages

DEFAULT_SECONDS = 60
START_SECONDS = 1  # of each run, which the engine does not count


def main() -> int:
    known = packages()
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz",
        description="Looks for inputs that break a parser. Without a source, all of them share the time.",
    )
    parser.add_argument(
        "source", nargs="?", choices=known, metavar="SOURCE", help=f"one of {', '.join(known)}"
    )
    parser.add_argument(
        "seconds",
        nargs="?",
        type=int,
        default=os.environ.get("FUZZ_SECONDS", str(DEFAULT_SECONDS)),
        help=f"in all; default: FUZZ_SECONDS, else {DEFAULT_SECONDS}",
    )
    chosen = parser.parse_args()
    if chosen.seconds < 1:
        parser.error("seconds: at least 1")
    if find_spec("atheris") is None:
        print("fuzz: atheris is not installed; make fuzz installs it", file=sys.stderr)
        return 2
    names = [chosen.source] if chosen.source else list(known)
    beside = min(os.cpu_count() or 1, len(names))
    seconds = max(1, chosen.seconds * beside // len(names) - START_SECONDS)
    print(f"fuzz: {len(names)} sources, {seconds} s each, {beside} at a time", flush=True)
    found = 0
    with ThreadPoolExecutor(beside) as pool:
        for run in pool.map(lambda name: fuzz(known[name], name, seconds), names):
            found += run.failed
            print(_told(run), flush=True)
    print(f"fuzz: {found} of {len(names)} sources fail" if found else "fuzz: nothing found", flush=True)
    return 1 if found else 0


def _told(run: Run) -> str:
    line = f"  {run.source:<24} {run.inputs:>9} inputs  {run.branches:>5} branches"
    if not run.failed:
        return line
    kept = f"\n    the input: {run.finding}" if run.finding else ""
    said = "".join(f"\n    {said}" for said in run.said.splitlines())
    return f"{line}  FAILED{kept}{said}"


if __name__ == "__main__":
    sys.exit(main())
