"""What Huawei's npu-exporter tells of containers and processes on a chip."""

from accelscope.metrics.dialects.dialect import gauges
from accelscope.metrics.dialects.view import DeviceView
from accelscope.model import Owner, OwnerKind, Process

_Values = list[tuple[tuple[str, ...], float | None]]


def _joined(*names: str | None) -> str:
    """Namespace, pod and container, as the exporter writes them into one label."""
    return "_".join(name for name in names if name)


def _of_holder(view: DeviceView) -> tuple[str, ...]:
    return ("", _joined(view.namespace, view.pod, view.container), view.namespace, view.pod)


def _of_process(process: Process, view: DeviceView) -> tuple[str, ...]:
    """Container id, container, namespace and pod of a process. Where nobody knows whose it is, those that
    hold the chip, as there; a process that is known to be in no pod has none."""
    owner = process.owner
    if owner is None or owner.kind is OwnerKind.UNKNOWN:
        return _of_holder(view)
    if owner.pod is None:
        return (owner.container_id or "", "", "", "")
    name = _joined(owner.namespace, owner.pod, owner.container)
    return (owner.container_id or "", name, owner.namespace or "", owner.pod)


def _process_memory(view: DeviceView) -> _Values:
    if not view.processes and not view.device.stale:
        return [(("", *_of_holder(view)), 0)]
    return [
        (
            (str(p.pid), *_of_process(p, view)),
            None if p.memory_bytes is None else round(p.memory_bytes / 2**20, 6),
        )
        for p in view.shown_processes
    ]


def _containers(view: DeviceView) -> _Values:
    """Those whose processes are on the chip: a container's id is known by its processes only."""
    owners: dict[str, Owner] = {}
    for process in view.processes:
        owner = process.owner
        if owner is not None and owner.pod is not None and owner.container_id is not None:
            owners.setdefault(owner.container_id, owner)
    return [
        (
            (
                container_id,
                _joined(owner.namespace, owner.pod, owner.container),
                owner.container or "",
                owner.namespace or "",
                owner.pod or "",
            ),
            1,
        )
        for container_id, owner in sorted(owners.items())
    ]


CONTAINER_INFO = gauges(
    "npu_container_info",
    "A container whose processes are on the chip; 1.",
    ("containerID", "containerName", "container_name", "namespace", "pod_name"),
    _containers,
)
PROCESS_INFO = gauges(
    "npu_chip_info_process_info",
    "Memory that a process holds on the chip, in MB of 2^20 bytes; 0 without a process_id if there is none.",
    ("process_id", "container_id", "container_name", "namespace", "pod_name"),
    _process_memory,
)
