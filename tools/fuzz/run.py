"""One run of the engine, and what it says."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.seeds import REPOSITORY, captures, dictionary, kept, own

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
        begin = [*own(source), *kept(source), *captures(package)]
        for number, path in enumerate(begin):
            (seeds / f"{number}-{path.name}").symlink_to(path.resolve())
        options = {
            "max_total_time": seconds,
            "max_len": _MAX_BYTES,
            "timeout": _ENDLESS_SECONDS,
            "rss_limit_mb": _MAX_MIB,
            **dictionary_option(begin, Path(scratch)),
            "artifact_prefix": f"{findings}/{source}-",
            "print_final_stats": 1,
            "seed": os.environ.get("FUZZ_SEED", "0"),  # 0: another each time
        }
        done = engine(package, source, options, [corpus, seeds], timeout=seconds + _START_SECONDS)
    return outcome(source, done.returncode, done.stdout)


def dictionary_option(texts: Sequence[Path], scratch: Path) -> dict[str, object]:
    """The engine ends at once where its dictionary is empty, as that of a source of bare numbers is."""
    words = dictionary(path.read_text(errors="replace") for path in texts)
    if not words:
        return {}
    (scratch / "words").write_text(words)
    return {"dict": scratch / "words"}


def engine(
    package: str, source: str, options: Mapping[str, object], folders: Sequence[Path], *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """One process of it, and all that it printed. Options are libFuzzer's."""
    command = [sys.executable, "-m", "tools.fuzz.one", package, source]
    command += [f"-{name}={value}" for name, value in options.items()]
    return subprocess.run(
        [*command, *map(str, folders)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def outcome(source: str, code: int, printed: str) -> Run:
    """Of what the engine printed. One that tried nothing has shown nothing: that is a failure too."""
    counted = re.findall(r"^#(\d+)\s.* cov: (\d+)", printed, re.MULTILINE)
    inputs, branches = map(int, counted[-1]) if counted else (0, 0)
    found = re.search(r"Test unit written to (\S+)", printed)
    failed = code != 0 or inputs == 0
    return Run(
        source=source,
        failed=failed,
        inputs=inputs,
        branches=branches,
        finding=Path(found[1]) if found else None,
        said="\n".join(_complaint(printed)) if failed else "",
    )


def _complaint(printed: str) -> list[str]:
    """From the exception on, if there is one; without the engine's progress."""
    _, _, trace = printed.rpartition("=== Uncaught Python exception: ===")
    lines = (trace or printed).splitlines()
    return [line for line in lines if line.strip() and not re.match(r"#\d+|INFO|stat::", line)][:_SAID_LINES]
