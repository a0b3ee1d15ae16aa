"""The lines of a process's mountinfo that tell which container it is in. The others name volumes, servers and
file systems, which are nobody's business."""

import re

_TELLS = re.compile(
    r" - cgroup2? |/etc/hosts |/etc/hostname |/dev/termination-log |/etc-hosts |/sandboxes/[^/ ]+/hostname "
)


def container_mounts(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if _TELLS.search(f"{line.rstrip()} "))
