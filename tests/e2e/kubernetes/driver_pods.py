"""Pods that pose as those of NVIDIA's GPU operator: its labels, its containers, and the simulated tool in the
container in which the real one is."""

from typing import Any

from tests.e2e.kubernetes import images

from accelscope.simulate import SimulatedNode

CONTAINER = "nvidia-driver-ctr"

_NEVER_READY = {"exec": {"command": ["false"]}, "periodSeconds": 1}
_PATH = "/usr/bin:/bin"


def driver_pod(
    namespace: str,
    gpus: SimulatedNode | None,
    *,
    name: str = "nvidia-driver-daemonset-x7k2p",
    ready: bool = True,
) -> dict[str, Any]:
    """As operators since v23.9 make it, with a container before the driver's that has no nvidia-smi. Without
    `gpus` there is none in the driver's either."""
    image = {"image": images.base_image().tag, "imagePullPolicy": "Never"}
    waiting = {**image, "command": ["python3", "-c", "import signal; signal.pause()"]}
    driver: dict[str, Any] = {"name": CONTAINER, **waiting}
    volumes = []
    if gpus is not None:
        folder = str(gpus.folder)
        volumes = [{"name": "driver", "hostPath": {"path": folder}}]
        driver["volumeMounts"] = [{"name": "driver", "mountPath": folder, "readOnly": True}]
        driver["env"] = [{"name": "PATH", "value": f"{folder}/bin:{_PATH}"}]
    if not ready:
        driver["readinessProbe"] = _NEVER_READY
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app": "nvidia-driver-daemonset",
                "app.kubernetes.io/component": "nvidia-driver",
                "helm.sh/chart": "gpu-operator",
            },
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "initContainers": [{"name": "k8s-driver-manager", **image, "command": ["true"]}],
            "containers": [{"name": "nvidia-peermem-ctr", **waiting}, driver],
            "volumes": volumes,
        },
    }


def operand(namespace: str, name: str) -> dict[str, Any]:
    """Another pod of the operator: it has nothing to do with the driver."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": images.PAUSE_TAG, "imagePullPolicy": "Never"}],
        },
    }
