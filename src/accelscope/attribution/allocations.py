"""Who was given what: the kubelet's device ids, claims, and annotations of schedulers that share devices."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved, resolve
from accelscope.attribution.hami import HamiShare, shares_of
from accelscope.attribution.owners import PodTable
from accelscope.attribution.pod_resources import ClaimDevice, HeldContainer, HeldPod
from accelscope.kube.objects import KubePod
from accelscope.model import Allocation, AllocationSource

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
