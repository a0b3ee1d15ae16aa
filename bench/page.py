"""docs/benchmarks.md, made from what was measured."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.tables import Table

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_HEAD = """\
# Benchmarks

Made by `make bench ARGS="--peers --write"` on {date}. `make bench` repeats it with the other exporters that
are there, `ARGS=--peers` gets those that are not, and `ARGS=--quick` gives a rough answer sooner. All figures
come from one run on one machine with two cores: ratios travel to other machines, absolute times do not.
Simulated driver calls burn a stated CPU time, because calls that cost nothing would make every comparison
meaningless.

How it is measured:

- RSS and private memory come from `/proc/PID/statm` and `smaps_rollup`, CPU time from the process's CPU
  clock, with that of the tools it ran from `/proc/PID/stat`.
- Other exporters are the published ones: from PyPI, crates.io and Debian, kept in
  `~/.cache/accelscope-bench` (`ACCELSCOPE_BENCH_CACHE` is another folder). What could not be had, or cannot
  run without hardware, stands in the table with the reason. `make bench ARGS="--peer 'NAME=COMMAND'"`
  adds an exporter that no registry carries, such as `mine=/opt/mine --listen 127.0.0.1:{{port}}`; the command
  runs without a shell, with `{{port}}`, `{{interval}}` and `{{node}}` filled in (`python -m bench --help`).
- The scraping client is a bare socket that asks as Prometheus does (OpenMetrics, gzip). A time runs from
  before connecting to the last byte.
- Python programs run with bytecode, as `pip install` leaves them. Without it the agent's memory is larger by
  what compiling `nvidia-ml-py` at each start needs.
- The C program that the agent is compared with (`bench/c/driver_calls.c`) makes the calls that were recorded
  from the agent's own reader during two collections: same arguments, same order.
"""


def write_page(tables: Sequence[Table]) -> Path:
    head = _HEAD.format(date=datetime.now(UTC).date().isoformat())
    _PAGE.write_text("\n".join([head, *(f"{table.as_markdown()}\n" for table in tables)]))
    return _PAGE
