"""The programs, and where they come from. `python -m tests.reality` fetches them ahead of the tests."""

from collections.abc import Callable

from tests.e2e.kubernetes.cache import Say, to_stderr
from tests.e2e.kubernetes.errors import ClusterError
from tests.reality.debian import Tree
from tests.reality.pypi import Environment

_AMD = ("rocm-smi", "amd-smi", "nvtop")
# A stable suite is required: it has these programs for years. The others have whatever is uploaded.
TRIXIE = Tree(suite="trixie", programs=_AMD)
SID = Tree(suite="sid", programs=_AMD, moving=True)
EXPERIMENTAL = Tree(suite="experimental", base_suite="sid", programs=_AMD, moving=True)
# NVIDIA's own library and tool. They are not free: nothing of them is kept in the repository.
NVIDIA_BOOKWORM = Tree(suite="bookworm", programs=("libnvidia-ml1", "nvidia-smi"))
NVIDIA_TRIXIE = Tree(suite="trixie", programs=("libnvidia-ml1", "nvidia-smi"))
TREES = (TRIXIE, SID, EXPERIMENTAL, NVIDIA_BOOKWORM, NVIDIA_TRIXIE)

# Every version that PyPI has as a wheel: each contains the vendor's native library.
FURIOSA = (
    *(
        Environment(package="furiosa-smi-py", version=version)
        for version in ("2025.2.0", "2025.3.0", "2026.1.0", "2026.1.1", "2026.1.2")
    ),
    Environment(package="furiosa-smi", version="2026.4.0"),
)
_NVIDIA = ("nvidia-ml-py==13.615.71", "psutil==7.2.2")
NVITOP = Environment(package="nvitop", version="1.7.2", others=_NVIDIA)
GPUSTAT = Environment(
    package="gpustat",
    version="1.1.1",
    others=(*_NVIDIA, "blessed==1.52.0", "jinxed==2.1.0", "wcwidth==0.9.4"),
    source=True,
)
ENVIRONMENTS = (*FURIOSA, NVITOP, GPUSTAT)


def prepare(say: Say = to_stderr) -> None:
    """Fetches all programs. What cannot be had does not keep the others from being fetched: the tests that
    need it are skipped, or fail if it is required."""
    makers: list[Callable[[Say], object]] = [tree.root for tree in TREES]
    makers += [environment.python for environment in ENVIRONMENTS]
    for make in makers:
        try:
            make(say)
        except ClusterError as error:
            say(f"not fetched: {error}")
