"""What of `/proc`, the kubelet and shares `accelscope parse` can read."""

from accelscope.attribution import cgroup, checkpoint, shares
from accelscope.parsing import Source

SOURCES = (
    Source(
        "proc-cgroup",
        "/proc/<pid>/cgroup: the pod and the container of a process",
        lambda text, _fields: cgroup.parse_cgroup(text),
        tells="containers",
    ),
    Source(
        "proc-mountinfo",
        "/proc/<pid>/mountinfo: the same, where the cgroup does not tell",
        lambda text, _fields: cgroup.parse_mountinfo(text),
        tells="containers",
    ),
    Source(
        "kubelet-checkpoint",
        "the kubelet's kubelet_internal_checkpoint: device ids and given devices by container",
        lambda text, _fields: checkpoint.parse_checkpoint(text),
        tells="allocations",
    ),
    Source(
        "gpu-allocation",
        "gpu_allocation.txt: into how many shares each card is cut",
        lambda text, _fields: shares.parse_gpu_allocation(text),
        tells="ratio",
    ),
)
