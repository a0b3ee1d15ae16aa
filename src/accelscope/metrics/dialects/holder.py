"""Which pod a device is put down to, for exporters that have one series per device.

The one whose containers hold it; where no one holds it, the one whose processes use it. Of a device that
several pods share, nobody is named: any name would put all of it down to one of them.
"""

from collections.abc import Iterable
from dataclasses import replace

from accelscope.metrics.dialects.view import DeviceView
from accelscope.model import PodUsage

_NOBODY = ("", "", "")


def put_down(view: DeviceView) -> DeviceView:
    """The view with its pod and container, where there is one only."""
    namespace, pod, container = _holder(view)
    return replace(view, namespace=namespace, pod=pod, container=container) if pod else view


def _holder(view: DeviceView) -> tuple[str, str, str]:
    if not view.usages:
        return _NOBODY
    parts = _parts(view)
    held = [u for u in view.usages if u.allocated and (parts is None or u.partition in (None, *parts))]
    # A whole device is held with all its parts; a process whose part is not known is not in all of them.
    used = [u for u in view.usages if u.processes and (parts is None or u.partition in parts)]
    return _only(held or used)


def _only(usages: Iterable[PodUsage]) -> tuple[str, str, str]:
    """Several containers of one pod: the pod without a container."""
    containers = {(u.namespace, u.pod, u.container) for u in usages}
    pods = {(namespace, pod) for namespace, pod, _ in containers}
    if len(pods) != 1:
        return _NOBODY
    [(namespace, pod)] = pods
    return (namespace, pod, next(iter(containers))[2] if len(containers) == 1 else "")


def _parts(view: DeviceView) -> set[str] | None:
    """Ids of the part that the series is about; compute instances of one GPU instance are not told apart."""
    part = view.partition
    if part is None:
        return None
    if part.gpu_instance_id is None:
        return {part.id}
    return {p.id for p in view.device.partitions if p.gpu_instance_id == part.gpu_instance_id}
