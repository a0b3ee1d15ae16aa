"""The lines of a process's mountinfo that tell which container it is in. The others name volumes, servers and
file systems, which are nobody's business; so does the end of each line, after the type of its file system."""

import re

_TELLS = re.compile(
    r" - cgroup2? |/etc/hosts |/etc/hostname |/dev/termination-log |/etc-hosts |/sandboxes/[^/ ]+/hostname "
)
_SOURCE = re.compile(r"( - (?!cgroup2? )\S+) .*")  # `filer.corp:/export rw,addr=10.1.2.3`


def container_mounts(text: str) -> str:
    lines = (line for line in text.splitlines(keepends=True) if " - " in line)
    return "".join(
        _SOURCE.sub(r"\1 - -", line, count=1) for line in lines if _TELLS.search(f"{line.rstrip()} ")
    )
