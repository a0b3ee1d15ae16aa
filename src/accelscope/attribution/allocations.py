"""Who was given what: the kubelet's device ids, claims, and annotations of schedulers that share devices."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved, resolve
from accelscope.attribution.owners import PodTable
from accelscope.attribution.pod_resources import ClaimDevice, HeldContainer, HeldPod
from accelscope.kube.objects import KubePod
from accelscope.model import Allocation, AllocationSource

# --- hami ------------------------------------------------------------
# HAMi, a scheduler that shares devices: what it wrote on pods.
#
# On a pod, `hami.io/<kind>-devices-allocated` has for each container `id,type,MiB,percent:` per device and
# then `;`, also for a container without any. Containers are in the order of the spec; newer versions count
# init containers first. A MIG instance is `GPU-…[template-slot]` in versions up to 2.9, and later stands in
# an annotation of its own, in JSON.


_ALLOCATED = re.compile(r"hami\.io/.+-devices-allocated", re.DOTALL)
_MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
_MIG_SLOT = re.compile(r"\[[^\]]*\]\Z")
_WHOLE = re.compile(r"[0-9]{1,9}")
_MIB = 2**20
_PERCENT = 100
_LONGEST_ID = 256
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class HamiShare:
    """A device, or a part of one, that a container may use."""

    device_id: str  # of the GPU; of the MIG instance once it is known
    type: str
    memory_bytes: int | None = None  # None: not limited
    compute_ratio: float | None = None


def shares_of(
    annotations: Iterable[tuple[str, str]], containers: Sequence[str], init_containers: Sequence[str] = ()
) -> tuple[list[tuple[str, HamiShare]], list[str]]:
    """Shares by the container's name, and what could not be read. Containers are in the order of the spec."""
    shares: list[tuple[str, HamiShare]] = []
    problems: list[str] = []
    written = dict(annotations)
    instances = _mig_instances(written.get(_MIG_ALLOCATIONS), problems)
    for key, value in written.items():
        if not _ALLOCATED.fullmatch(key):
            continue
        parts = value.strip().removesuffix(";").split(";")
        names = containers
        if len(parts) == len(init_containers) + len(containers):
            names = (*init_containers, *containers)
        for at, part in enumerate(parts):
            for number, device in enumerate(part.split(":")):
                share = _share(device.strip(), key, problems)
                if share is None:
                    continue
                if at >= len(names):
                    problems.append(f"{key}: container {at + 1} of {len(names)}")
                    continue
                gpu, instance = instances.get((at, number), ("", ""))
                if instance and gpu == share.device_id:
                    share = replace(share, device_id=instance)
                shares.append((names[at], share))
    return shares, problems


def _share(text: str, key: str, problems: list[str]) -> HamiShare | None:
    if not text:
        return None
    cells = [cell.strip() for cell in text.split(",", 4)]
    device_id = _MIG_SLOT.sub("", cells[0])
    if len(cells) < 4 or not _is_id(device_id):
        problems.append(f"{key}: {_shown(text)} is no id,type,memory,cores")
        return None
    memory, cores = _whole(cells[2]), _whole(cells[3])
    if memory is None:
        problems.append(f"{key}: {_shown(cells[2])} is no memory in MiB")
    if cores is None or cores > _PERCENT:
        problems.append(f"{key}: {_shown(cells[3])} is no percentage of cores")
        cores = None
    return HamiShare(
        device_id,
        cells[1],
        memory * _MIB if memory else None,  # 0: as much as there is
        cores / _PERCENT if cores else None,
    )


def _mig_instances(text: str | None, problems: list[str]) -> dict[tuple[int, int], tuple[str, str]]:
    """Uuids of the GPU and of the MIG instance on it, by the place of the container and of its device."""
    if not text:
        return {}
    listed = _json_list(text)
    if listed is None:
        problems.append(f"{_MIG_ALLOCATIONS}: {_shown(text)} is no JSON list")
        return {}
    instances: dict[tuple[int, int], tuple[str, str]] = {}
    for entry in listed:
        if not isinstance(entry, dict):
            problems.append(f"{_MIG_ALLOCATIONS}: {_shown(str(entry))} is no allocation")
            continue
        at, number = entry.get("containerIndex", -1), entry.get("deviceIndex", -1)
        gpu, instance = entry.get("gpuUUID"), entry.get("migUUID", "")
        if not (_are_whole(at, number) and isinstance(gpu, str) and isinstance(instance, str)):
            problems.append(f"{_MIG_ALLOCATIONS}: {_shown(str(entry))} is no allocation")
        elif _is_id(instance):  # absent until the instance is made
            instances[at, number] = (gpu, instance)
    return instances


def _json_list(text: str) -> list[object] | None:
    import json  # noqa: PLC0415 - a node without HAMi does without

    from accelscope.parsing import without_halves  # noqa: PLC0415

    try:
        value = json.loads(without_halves(text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _are_whole(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value < 10**9 for value in values)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isprintable()


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


ClaimResolver = Callable[[ClaimDevice], Resolved]


def annotated(pods: PodTable, devices: DeviceIndex) -> tuple[list[Allocation], list[str]]:
    """What schedulers that share devices wrote on the pods, and what of it could not be read."""
    found, problems = [], []
    for pod in {pod.uid: pod for pod in pods.by_uid.values() if pod.annotations}.values():
        last = pod.container_count + pod.init_count
        names = [container.name for container in pod.containers[:last]]
        own, init = names[: pod.container_count], names[pod.container_count :]
        shares, unread = shares_of(pod.annotations, own, init)
        found += [_annotated(pod, container, share, devices) for container, share in shares]
        problems += [f"{pod.namespace}/{pod.name}: {problem}" for problem in unread]
    return found, problems


def allocations(
    held: Sequence[HeldPod],
    annotated: Sequence[Allocation],
    pods: PodTable,
    devices: DeviceIndex,
    claim_device: ClaimResolver,
) -> tuple[Allocation, ...]:
    """Of pods that run: the kubelet goes on naming pods that have ended, so where a source of pods tells
    which run, it decides."""
    # The kubelet's id need not be the device that is used: the annotation names it.
    resources = {
        (pod.namespace, pod.name, container.name): container.devices[0].resource_name
        for pod in held
        for container in pod.containers
        if len(container.devices) == 1
    }
    annotated = [replace(a, resource=resources.get((a.namespace, a.pod, a.container))) for a in annotated]
    shared = {(a.namespace, a.pod, a.container) for a in annotated}
    found: list[Allocation] = []
    for pod in held:
        known = pods.by_name.get((pod.namespace, pod.name))
        if known is None and pods.up:
            continue
        uid = None if known is None else known.uid
        for container in pod.containers:
            if (pod.namespace, pod.name, container.name) not in shared:
                found.extend(_plugin_devices(pod, container, uid, devices))
            found.extend(_claimed_devices(pod, container, uid, claim_device))
    return (*found, *annotated)


def _plugin_devices(
    pod: HeldPod, container: HeldContainer, uid: str | None, devices: DeviceIndex
) -> Iterator[Allocation]:
    for held in container.devices:
        for device_id in held.device_ids:
            resolved = resolve(device_id, held.resource_name, devices)
            yield Allocation(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                source=AllocationSource.KUBELET,
                device_id=device_id,
                pod_uid=uid,
                resource=held.resource_name,
                device=resolved.device,
                partition=resolved.partition,
            )


def _claimed_devices(
    pod: HeldPod, container: HeldContainer, uid: str | None, claim_device: ClaimResolver
) -> Iterator[Allocation]:
    for claim in container.claims:
        # A kubelet may name a claim and none of its devices: that it is held is worth telling.
        for device in claim.devices or (None,):
            resolved = UNRESOLVED if device is None else claim_device(device)
            yield Allocation(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                source=AllocationSource.CLAIM,
                device_id="" if device is None else _claimed_name(device),
                pod_uid=uid,
                claim=f"{claim.namespace}/{claim.name}",
                device=resolved.device,
                partition=resolved.partition,
            )


def _claimed_name(device: ClaimDevice) -> str:
    """Older kubelets tell the names for the container runtime only."""
    if device.device:
        return f"{device.driver}/{device.pool}/{device.device}"
    return ",".join(device.cdi)


def _annotated(pod: KubePod, container: str, share: HamiShare, devices: DeviceIndex) -> Allocation:
    resolved = resolve(share.device_id, None, devices)
    return Allocation(
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        source=AllocationSource.ANNOTATION,
        device_id=share.device_id,
        pod_uid=pod.uid,
        device=resolved.device,
        partition=resolved.partition,
        memory_bytes=share.memory_bytes,
        compute_ratio=share.compute_ratio,
    )
