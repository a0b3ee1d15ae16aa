"""The sources of `accelscope parse` that belong to attribution."""

from accelscope.attribution import cgroup, checkpoint, shares
from accelscope.parsing import OutputFormat

SOURCES = (
    OutputFormat(
        "proc-cgroup",
        "/proc/<pid>/cgroup: the pod and the container of a process",
        lambda text, _fields: cgroup.parse_cgroup(text),
        output="containers",
    ),
    OutputFormat(
        "proc-mountinfo",
        "/proc/<pid>/mountinfo: the same, if the cgroup file does not contain them",
        lambda text, _fields: cgroup.parse_mountinfo(text),
        output="containers",
    ),
    OutputFormat(
        "kubelet-checkpoint",
        "the kubelet's kubelet_internal_checkpoint: device ids and devices of each container",
        lambda text, _fields: checkpoint.parse_checkpoint(text),
        output="allocations",
    ),
    OutputFormat(
        "gpu-allocation",
        "gpu_allocation.txt: the number of shares per device",
        lambda text, _fields: shares.parse_gpu_allocation(text),
        output="ratio",
    ),
)
