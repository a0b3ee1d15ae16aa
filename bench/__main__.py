"""`python -m bench`: measure, print, and if asked to write docs/benchmarks.md."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.against import compare_with_other
from bench.attribution import attribute
from bench.bytecode import write_bytecode
from bench.children import Workshop
from bench.collection import collect
from bench.commands import commands
from bench.contracts import Contract, Outcome, Verdict, contract_table
from bench.effort import QUICK, USUAL
from bench.exporters import compare
from bench.fleet import read_fleets
from bench.growth import grow
from bench.memory_map import map_memory
from bench.page import write_page
from bench.peers import GIVEN_PEER, PEERS, given_peer, obtain_missing
from bench.rendering import render
from bench.scenes import scenes
from bench.start import start
from bench.tables import Table
from bench.vendors import read_each_vendor

SUBJECTS: dict[str, Callable[[Workshop], Outcome]] = {
    "against": compare_with_other,
    "exporters": compare,
    "collection": collect,
    "start": start,
    "memory-map": map_memory,
    "commands": commands,
    "growth": grow,
    "attribution": attribute,
    "rendering": render,
    "vendors": read_each_vendor,
    "fleet": read_fleets,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the agent beside other exporters on a simulated node, and the fleet on "
        "simulated clusters. Prints what it measured and never fails by a figure.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a few minutes, more noise")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="first obtain the other exporters that are not there: builds one with Rust, about 9 minutes of "
        "CPU time, once; ACCELSCOPE_BENCH_CACHE is the folder for them (~/.cache/accelscope-bench)",
    )
    parser.add_argument("--write", action="store_true", help="write the tables to docs/benchmarks.md")
    parser.add_argument(
        "--only", choices=SUBJECTS, action="append", help="only this subject; may be repeated"
    )
    parser.add_argument(
        "--scene", action="append", default=[], help="compare exporters on this node only; may be repeated"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="also measure the agent of this checkout, in which scripts/setup was run",
    )
    parser.add_argument(
        "--peer", type=given_peer, metavar="NAME=COMMAND", action="append", default=[], help=GIVEN_PEER
    )
    chosen = parser.parse_args()
    if chosen.against and not (chosen.against / ".venv/bin/accelscope").exists():
        parser.error(f"--against {chosen.against}: has no .venv/bin/accelscope; run scripts/setup there")
    effort = QUICK if chosen.quick else USUAL
    known = [scene.name for scene in scenes(effort)]
    if strange := [name for name in chosen.scene if name not in known]:
        parser.error(f"--scene {strange[0]}: there are {', '.join(known)}")
    if chosen.write and (chosen.only or chosen.quick or chosen.scene or chosen.against):
        parser.error("--write needs a whole run: leave --only, --scene, --against and --quick out")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    refused = obtain_missing() if chosen.peers else {}
    tables: list[Table] = []
    verdicts: dict[Contract, Verdict] = {}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="accelscope-bench-") as folder:
        workshop = Workshop(
            Path(folder), effort, refused, chosen.scene, chosen.against, (*PEERS, *chosen.peer)
        )
        write_bytecode(workshop)
        for name in chosen.only or SUBJECTS:
            outcome = SUBJECTS[name](workshop)
            verdicts |= outcome.verdicts
            tables += outcome.tables
            for table in outcome.tables:
                print(f"{table.as_text()}\n", flush=True)
    if verdicts:
        summary = contract_table(verdicts)
        tables.insert(0, summary)
        print(f"{summary.as_text()}\n")
    print(f"Measured in {time.perf_counter() - started:.0f} s.")
    if chosen.write:
        print(f"Written to {write_page(tables)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
