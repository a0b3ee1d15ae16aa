"""Devices allocated to containers, from the kubelet's device ids, resource claims and HAMi's annotations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, resolve
from accelscope.attribution.pod_resources import ClaimDevice, ContainerResources, PodResources
from accelscope.attribution.processes import PodTable
from accelscope.model import Allocation, AllocationSource

if TYPE_CHECKING:
    from accelscope.kube.objects import KubePod

ClaimResolver = Callable[[ClaimDevice], ResolvedDevice]


@dataclass(frozen=True, slots=True)
class HamiAllocation:
    """A device, or part of one, that a container may use."""

    device_id: str  # of the GPU, or of the MIG instance once it exists
    type: str
    memory_bytes: int | None = None  # None: no limit
    compute_ratio: float | None = None


def annotation_allocations(pods: PodTable, devices: DeviceIndex) -> tuple[list[Allocation], list[str]]:
    """Allocations from pods' annotations, and the errors of those that are malformed."""
    found, problems = [], []
    for pod in {pod.uid: pod for pod in pods.by_uid.values() if pod.annotations}.values():
        last = pod.container_count + pod.init_count
        names = [container.name for container in pod.containers[:last]]
        own, init = names[: pod.container_count], names[pod.container_count :]
        shares, errors = parse_hami_shares(pod.annotations, own, init)
        found += [_share_allocation(pod, container, share, devices) for container, share in shares]
        problems += [f"{pod.namespace}/{pod.name}: {error}" for error in errors]
    return found, problems


def allocations(
    resources: Sequence[PodResources],
    annotated: Sequence[Allocation],
    pods: PodTable,
    devices: DeviceIndex,
    claim_device: ClaimResolver,
) -> tuple[Allocation, ...]:
    """All allocations. The kubelet also lists pods that have ended; these are left out if the source of pods
    is up."""
    # A container with an annotation uses the annotation's device, not that of the kubelet's id.
    resource_names = {
        (pod.namespace, pod.name, container.name): container.devices[0].resource_name
        for pod in resources
        for container in pod.containers
        if len(container.devices) == 1
    }
    annotated = [
        replace(a, resource=resource_names.get((a.namespace, a.pod, a.container))) for a in annotated
    ]
    shared = {(a.namespace, a.pod, a.container) for a in annotated}
    found: list[Allocation] = []
    for pod in resources:
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
    pod: PodResources, container: ContainerResources, uid: str | None, devices: DeviceIndex
) -> Iterator[Allocation]:
    for resource in container.devices:
        for device_id in resource.device_ids:
            resolved = resolve(device_id, resource.resource_name, devices)
            yield Allocation(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                source=AllocationSource.KUBELET,
                device_id=device_id,
                pod_uid=uid,
                resource=resource.resource_name,
                device=resolved.device,
                partition=resolved.partition,
            )


def _claimed_devices(
    pod: PodResources, container: ContainerResources, uid: str | None, claim_device: ClaimResolver
) -> Iterator[Allocation]:
    for claim in container.claims:
        # A kubelet may list a claim without devices. The claim is still published.
        for device in claim.devices or (None,):
            resolved = UNRESOLVED if device is None else claim_device(device)
            yield Allocation(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                source=AllocationSource.CLAIM,
                device_id="" if device is None else _claim_device_id(device),
                pod_uid=uid,
                claim=f"{claim.namespace}/{claim.name}",
                device=resolved.device,
                partition=resolved.partition,
            )


def _claim_device_id(device: ClaimDevice) -> str:
    """Older kubelets report only the CDI names."""
    if device.device:
        return f"{device.driver}/{device.pool}/{device.device}"
    return ",".join(device.cdi)


def _share_allocation(
    pod: "KubePod", container: str, share: HamiAllocation, devices: DeviceIndex
) -> Allocation:
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


# HAMi is a scheduler that shares devices. Its annotation `hami.io/<kind>-devices-allocated` of a pod has
# `id,type,MiB,percent:` per device and `;` after each container, also after one without devices. Containers
# are in the order of the spec; newer versions list init containers first. Versions up to 2.9 write a MIG
# instance as `GPU-…[template-slot]`; later ones use an annotation of its own, in JSON.
_ALLOCATED = re.compile(r"hami\.io/.+-devices-allocated", re.DOTALL)
_MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
_MIG_SLOT = re.compile(r"\[[^\]]*\]\Z")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
_MIB = 2**20
_PERCENT = 100
_LONGEST_ID = 256
_MAX_QUOTED = 60


def parse_hami_shares(
    annotations: Iterable[tuple[str, str]], containers: Sequence[str], init_containers: Sequence[str] = ()
) -> tuple[list[tuple[str, HamiAllocation]], list[str]]:
    """Shares with their container's name, and errors. Containers are in the order of the spec."""
    shares: list[tuple[str, HamiAllocation]] = []
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


def _share(text: str, key: str, problems: list[str]) -> HamiAllocation | None:
    if not text:
        return None
    cells = [cell.strip() for cell in text.split(",", 4)]
    device_id = _MIG_SLOT.sub("", cells[0])
    if len(cells) < 4 or not _is_id(device_id):
        problems.append(f"{key}: {_quote(text)} is not id,type,memory,cores")
        return None
    memory, cores = _whole_number(cells[2]), _whole_number(cells[3])
    if memory is None:
        problems.append(f"{key}: {_quote(cells[2])} is not a memory size in MiB")
    if cores is None or cores > _PERCENT:
        problems.append(f"{key}: {_quote(cells[3])} is not a percentage of cores")
        cores = None
    return HamiAllocation(
        device_id,
        cells[1],
        memory * _MIB if memory else None,  # 0: no limit
        cores / _PERCENT if cores else None,
    )


def _mig_instances(text: str | None, problems: list[str]) -> dict[tuple[int, int], tuple[str, str]]:
    """Uuids of the GPU and of its MIG instance, by the indexes of the container and of its device."""
    if not text:
        return {}
    listed = _json_list(text)
    if listed is None:
        problems.append(f"{_MIG_ALLOCATIONS}: {_quote(text)} is not a JSON list")
        return {}
    instances: dict[tuple[int, int], tuple[str, str]] = {}
    for entry in listed:
        if not isinstance(entry, dict):
            problems.append(f"{_MIG_ALLOCATIONS}: {_quote(str(entry))} is not an allocation")
            continue
        at, number = entry.get("containerIndex", -1), entry.get("deviceIndex", -1)
        gpu, instance = entry.get("gpuUUID"), entry.get("migUUID", "")
        if not (_are_indexes(at, number) and isinstance(gpu, str) and isinstance(instance, str)):
            problems.append(f"{_MIG_ALLOCATIONS}: {_quote(str(entry))} is not an allocation")
        elif _is_id(instance):  # absent until the instance is created
            instances[at, number] = (gpu, instance)
    return instances


def _json_list(text: str) -> list[object] | None:
    import json  # noqa: PLC0415 - only a node with HAMi needs it

    from accelscope.parsing import without_halves  # noqa: PLC0415

    try:
        value = json.loads(without_halves(text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _are_indexes(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value < 10**9 for value in values)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isprintable()


def _whole_number(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _quote(text: str) -> str:
    return ascii(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "...")
