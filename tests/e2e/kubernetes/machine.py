"""Whether this machine can run a cluster. Everything that is missing is named at once."""

import os
import shutil
from pathlib import Path

from tests.e2e.kubernetes import cgroups
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError, CommandFailed, MachineUnfit

# Where Debian keeps each of them.
_PROGRAMS = {
    "buildah": "buildah",
    "cc": "gcc",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "etcd": "etcd-server",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
_LONGEST_SOCKET_PATH = 107  # bytes
_NETWORK_PLUGINS = Path("/usr/lib/cni")
_SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def check_machine() -> None:
    """Raises MachineUnfit."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root (namespaces, mounts and cgroups are made)")
    packages = {
        package for program, package in _PROGRAMS.items() if not shutil.which(program, path=_SEARCHED)
    }
    if not all((_NETWORK_PLUGINS / name).exists() for name in ("bridge", "host-local", "loopback")):
        packages.add("containernetworking-plugins")
    if packages:
        missing.append(f"Debian packages: apt-get install {' '.join(sorted(packages))}")
    if os.geteuid() == 0:
        missing += _missing_of_kernel()
    if missing:
        raise MachineUnfit(f"a Kubernetes cluster for the tests needs {'; and '.join(missing)}")


def check_socket_path(path: Path) -> None:
    """Raises ClusterError where the kernel would not take it."""
    if len(str(path).encode()) > _LONGEST_SOCKET_PATH:
        raise ClusterError(f"{path} is too long for a socket: set ACCELSCOPE_E2E_CACHE to a shorter path")


def _missing_of_kernel() -> list[str]:
    missing = []
    try:
        run(
            [
                "unshare",
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--mount-proc",
                "ip",
                "link",
                "set",
                "lo",
                "up",
            ]
        )
    except CommandFailed as error:
        missing.append(f"mount, network and pid namespaces ({error.stderr.strip()})")
    if not cgroups.writable():
        missing.append(f"cgroups that can be made under {cgroups.ROOT}")
    if pids := cgroups.processes():
        missing.append(
            f"a machine without pods of another kubelet ({len(pids)} processes are in cgroups of pods, "
            f"{min(pids)} among them)"
        )
    return missing
