"""Files that hold a secret, and whether every user of the machine can read them. A leaf that every package
may use, so that agent, fleet and doctor go by one rule."""

import logging
import stat
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)


def is_world_readable(path: str | Path) -> bool:
    """Whether the file gives every user the right to read it. A file that is not there does not."""
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def warn_world_readable(what: str, paths: Iterable[str | None]) -> None:
    """Log each of these files that every user can read; `what` it holds. Volumes of the kubelet are left out:
    a Secret has mode 0644 by default, and nobody else is in the container."""
    for path in dict.fromkeys(paths):
        if path is not None and is_world_readable(path) and not (Path(path).parent / "..data").is_symlink():
            log.warning(
                "every user of this machine can read %s; take that right away with chmod o-r",
                what,
                extra={"fields": {"path": path}},
            )
