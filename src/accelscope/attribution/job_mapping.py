"""The folder in which a batch system's prolog and epilog note the jobs of each GPU: one file per GPU, one job
id per line. dcgm-exporter reads the same files."""

import os
import re
from pathlib import Path

from accelscope.filewatch import open_regular

_FILE_NAME = re.compile(  # 0, of a MIG instance 0.7, or a uuid
    r"[0-9]{1,5}(?:\.[0-9]{1,5})?|(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
_MOST_FILES = 1024
_FILE_BYTES = 64 * 1024
_LONGEST_ID = 64


def read_job_mapping(folder: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Job ids by name of the file, without GPUs that have no job, and what could not be read. Raises OSError
    if the folder cannot be listed."""
    with os.scandir(folder) as entries:
        names = sorted(
            entry.name for entry in entries if _FILE_NAME.fullmatch(entry.name) and entry.is_file()
        )
    found, unread = {}, []
    for name in names[:_MOST_FILES]:
        try:
            with open_regular(folder / name) as file:
                content = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:  # the job has ended since
            continue
        except OSError as error:
            unread.append(f"{folder / name} cannot be read: {error.strerror}")
            continue
        jobs = _jobs(content)
        if jobs:
            found[name] = jobs
    return found, unread


def _jobs(content: bytes) -> tuple[str, ...]:
    if len(content) > _FILE_BYTES:
        content = content[:_FILE_BYTES].rpartition(b"\n")[0]  # the last line is cut
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    ids = (line.strip() for line in lines)
    return tuple(dict.fromkeys(i for i in ids if 0 < len(i) <= _LONGEST_ID and i.isprintable()))
