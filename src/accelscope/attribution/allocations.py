"""Who was given what: the kubelet's device ids, claims, and annotations of schedulers that share devices."""

from collections.abc import Callable, Iterable, Iterator

from accelscope.attribution.device_ids import DeviceIndex, Resolved, resolve
from accelscope.attribution.hami import shares_of
from accelscope.attribution.owners import PodTable
from accelscope.attribution.pod_resources import ClaimDevice, HeldContainer, HeldPod
from accelscope.kube.pods import KubePod
from accelscope.model import Allocation, AllocationSource

ClaimResolver = Callable[[ClaimDevice], Resolved]


def allocations(
    held: Iterable[HeldPod], pods: PodTable, devices: DeviceIndex, claim_device: ClaimResolver
) -> tuple[Allocation, ...]:
    """Of pods that run: the kubelet and the annotations go on naming pods that have ended, so where a source
    of pods tells which run, it decides."""
    annotated = [
        allocation
        for pod in {pod.uid: pod for pod in pods.by_uid.values()}.values()
        for allocation in _annotated(pod, devices)
    ]
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
        for device in claim.devices:
            resolved = claim_device(device)
            yield Allocation(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                source=AllocationSource.CLAIM,
                device_id=f"{device.driver}/{device.pool}/{device.device}",
                pod_uid=uid,
                claim=f"{claim.namespace}/{claim.name}",
                device=resolved.device,
                partition=resolved.partition,
            )


def _annotated(pod: KubePod, devices: DeviceIndex) -> Iterator[Allocation]:
    """HAMi: the kubelet's id need not be the device that is used, the annotation names it."""
    if not pod.annotations:
        return
    names = [container.name for container in pod.containers[: pod.container_count]]
    shares, _ = shares_of(pod.annotations, names)
    for container, share in shares:
        resolved = resolve(share.device_id, None, devices)
        yield Allocation(
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
