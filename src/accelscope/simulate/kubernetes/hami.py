"""What HAMi's scheduler writes on a pod whose containers it gave shares of devices."""

from accelscope.simulate.pods import SimulatedContainer, SimulatedPod


def hami_annotations(pod: SimulatedPod, node: str) -> dict[str, str]:
    shared = any(grant.share for container in pod.containers for grant in container.grants)
    if not shared:
        return {}
    return {
        "hami.io/vgpu-node": node,
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-to-allocate": ";",
        "hami.io/vgpu-devices-allocated": "".join(map(_container, pod.containers)),
    }


def _container(container: SimulatedContainer) -> str:
    """Card, type, MiB and percent of the cores; each share ends with a colon, each container with a
    semicolon."""
    shares = (
        f"{grant.device.id},{grant.device.hami_type},"
        f"{grant.share.memory_bytes >> 20},{grant.share.cores_percent}:"
        for grant in container.grants
        if grant.share is not None
    )
    return "".join(shares) + ";"
