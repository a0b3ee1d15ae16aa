"""Where the node's files are: as seen here, on the node itself, and in containers that get some of them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Roots:
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")
    host_dev: str = "/dev"
    host_sys: str = "/sys"
    container_dev: str = "/dev"
    container_sys: str = "/sys"
    ascend_driver: str = "/usr/local/Ascend/driver"
