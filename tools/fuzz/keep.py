"""Makes `corpus/<source>/` anew: `python -m tools.fuzz.keep [SECONDS [SOURCE]...]`, so many for each source.

Only from the seeds that were written by hand, never from captures: those are other people's. What is kept are
a few small inputs that take ways through a parser which the seeds do not take.
"""

import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from tools.fuzz.run import dictionary_option, engine
from tools.fuzz.seeds import CORPUS, own, packages

_USUAL_SECONDS = 10
_MAX_BYTES = 512
_MOST = 8  # of each source
_PATIENCE_SECONDS = 240


def main() -> int:
    known = packages()
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else _USUAL_SECONDS
    for source in sys.argv[2:] or known:
        print(f"  {source:<24} {remake(known[source], source, seconds)} inputs", flush=True)
    return 0


def remake(package: str, source: str, seconds: int) -> int:
    """How many are kept. Raises RuntimeError where the engine finds a fault: mend that first."""
    with tempfile.TemporaryDirectory(prefix="accelscope-corpus-") as scratch:
        seeds, grown = (Path(scratch) / name for name in ("seeds", "grown"))
        for folder in (seeds, grown):
            folder.mkdir()
        for path in own(source):
            shutil.copy(path, seeds)
        options = {
            "max_total_time": seconds,
            "max_len": _MAX_BYTES,
            "artifact_prefix": f"{scratch}/",
            **dictionary_option(own(source), Path(scratch)),
        }
        # Each input that it writes down took a way that none before it did.
        done = engine(package, source, options, [grown, seeds], timeout=seconds + _PATIENCE_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{source}: {done.stdout[-2000:]}")
        written = {path.read_bytes() for path in own(source)}
        found = sorted(
            {path.read_bytes() for path in grown.iterdir()} - written, key=lambda text: (len(text), text)
        )
    shutil.rmtree(CORPUS / source, ignore_errors=True)
    (CORPUS / source).mkdir(parents=True)
    spread = found[:: max(1, -(-len(found) // _MOST))]  # of all sizes: the smallest are all alike
    for text in spread:
        (CORPUS / source / sha256(text).hexdigest()[:12]).write_bytes(text)
    return len(spread)


if __name__ == "__main__":
    sys.exit(main())
