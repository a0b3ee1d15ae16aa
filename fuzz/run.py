"""One run of the engine, and what it says."""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuzz.seeds import REPOSITORY, captures, dictionary, own

# What was worth keeping of earlier runs, so that the next goes on from there; and inputs that fail.
_KEPT = REPOSITORY / ".cache" / "fuzz"
_MAX_BYTES = 1 << 16
_ENDLESS_SECONDS = 20  # for one input: the engine ends a run that hangs
_MAX_MIB = 1024
_START_SECONDS = 120  # what a busy machine may need around the time that is asked for
_SAID_LINES = 25


@dataclass(frozen=True, slots=True)
class Run:
    source: str
    failed: bool
    inputs: int
    branches: int  # of the parsers, that some input took
    finding: Path | None  # the input that fails
    said: str


def fuzz(package: str, source: str, seconds: int) -> Run:
    corpus, findings = _KEPT / "corpus" / source, _KEPT / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="accelscope-fuzz-") as scratch:
        seeds = Path(scratch) / "seeds"
        seeds.mkdir()
        begin = [*own(source), *captures(package)]
        for number, path in enumerate(begin):
            (seeds / f"{number}-{path.name}").symlink_to(path.resolve())
        words = Path(scratch) / "words"
        words.write_text(dictionary(path.read_text(errors="replace") for path in begin))
        options = {
            "max_total_time": seconds,
            "max_len": _MAX_BYTES,
            "timeout": _ENDLESS_SECONDS,
            "rss_limit_mb": _MAX_MIB,
            "dict": words,
            "artifact_prefix": f"{findings}/{source}-",
            "print_final_stats": 1,
        }
        command = [sys.executable, "-m", "fuzz.one", package, source]
        command += [f"-{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [*command, str(corpus), str(seeds)],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds + _START_SECONDS,
            check=False,
        )
    return _read(source, done.returncode, done.stdout)


def _read(source: str, code: int, printed: str) -> Run:
    counted = re.findall(r"^#(\d+)\s.* cov: (\d+)", printed, re.MULTILINE)
    inputs, branches = map(int, counted[-1]) if counted else (0, 0)
    kept = re.search(r"Test unit written to (\S+)", printed)
    return Run(
        source=source,
        failed=code != 0,
        inputs=inputs,
        branches=branches,
        finding=Path(kept[1]) if kept else None,
        said="\n".join(_complaint(printed)) if code else "",
    )


def _complaint(printed: str) -> list[str]:
    """From the exception on, if there is one; without the engine's progress."""
    _, _, trace = printed.rpartition("=== Uncaught Python exception: ===")
    lines = (trace or printed).splitlines()
    return [line for line in lines if line.strip() and not re.match(r"#\d+|INFO|stat::", line)][:_SAID_LINES]
