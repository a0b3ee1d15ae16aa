"""A node whose pods and processes come and go.

All of a day's processes in one description would have the simulator look at each of them at every step. So
the day is cut into shifts: at any time the node is made from the description of one shift only."""

from dataclasses import replace
from pathlib import Path

from accelscope.simulate import SimulatedNode, spec
from accelscope.simulate.description import read_node
from accelscope.simulate.spec import CgroupKind, CgroupSpec, LoadSpec, NodeSpec, PodSpec, ProcessSpec, Shape
from tools.soak.length import PODS_PER_STEP, PROCESSES_PER_POD, STEPS_OF_LIFE

_STEP_SECONDS = 86.4  # simulated: a thousand are a day
_STEPS_PER_SHIFT = 5
_SEED = 1
NVIDIA_DEVICES, AMD_DEVICES = 6, 2
_DEVICES = [("nvidia", slot) for slot in range(NVIDIA_DEVICES)] + [
    ("amd", slot) for slot in range(AMD_DEVICES)
]
_NODE = f"""
node: soak
seed: {_SEED}
nvidia: {{devices: [{{model: h100-80gb, count: {NVIDIA_DEVICES}}}]}}
amd: {{devices: [{{model: mi300x, count: {AMD_DEVICES}}}]}}
"""
# As many as a kernel has by default: numbers come round again, three times a day.
_FIRST_PID, _LAST_PID = 300, 32_767


class ChurningNode(SimulatedNode):
    """Of `steps` steps; `step()` shows one of them."""

    def __init__(self, folder: Path, steps: int) -> None:
        shifts = range(-(-steps // _STEPS_PER_SHIFT))
        super().__init__(_shift(0), folder)
        by_uid = {pod.uid: pod for shift in shifts for pod in SimulatedNode(_shift(shift), folder).pods}
        self.pods = tuple(by_uid.values())  # two shifts know those that are there when one follows the other
        self._shift: tuple[int, SimulatedNode] = (-1, self)

    def step(self, number: int) -> None:
        self.write((number + 0.5) * _STEP_SECONDS)

    def write(self, at: float) -> None:
        number = int(at // (_STEP_SECONDS * _STEPS_PER_SHIFT))
        if self._shift[0] != number:
            self._shift = (number, SimulatedNode(_shift(number), self.folder))
        with self._lock:
            self._shift[1].write(at)
            self._at = at
        for follower in tuple(self._callbacks):
            follower()


def _shift(number: int) -> NodeSpec:
    """Its pods, and those of the shift before that are still there when it begins."""
    first = number * _STEPS_PER_SHIFT
    steps = range(max(0, first - STEPS_OF_LIFE + 1), first + _STEPS_PER_SHIFT)
    processes = tuple(
        process
        for step in steps
        for pod in range(PODS_PER_STEP)
        for process in _processes(step, step * PODS_PER_STEP + pod)
    )
    return replace(read_node(_NODE), processes=processes)


def _processes(step: int, pod: int) -> list[ProcessSpec]:
    vendor, device = _DEVICES[pod % len(_DEVICES)]
    cgroup = CgroupSpec(
        kind=CgroupKind.POD,
        pod_uid=spec.uuid(_SEED, "soak pod", pod),
        container_id=spec.hex_id(_SEED, "soak container", pod),
        pod=PodSpec(namespace=f"team-{pod % 7}", name=f"worker-{pod}", container="worker"),
    )
    busy = LoadSpec(shape=Shape.IDLE if pod % 3 else Shape.STEADY, level=0.05)
    return [
        ProcessSpec(
            name=f"worker-{pod % 13}",
            vendor=vendor,
            devices=(device,),
            memory_bytes=64 << 20,
            load=busy,
            cgroup=cgroup,
            pid=_FIRST_PID + (pod * PROCESSES_PER_POD + copy) % (_LAST_PID - _FIRST_PID + 1),
            begin=step * _STEP_SECONDS,
            until=(step + STEPS_OF_LIFE) * _STEP_SECONDS,
        )
        for copy in range(PROCESSES_PER_POD)
    ]
