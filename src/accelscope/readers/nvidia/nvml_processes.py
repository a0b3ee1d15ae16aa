"""Processes on one GPU through NVML: who holds memory, and who ran since the last reading."""

from dataclasses import dataclass, replace
from typing import Any

from accelscope.model import AbsenceReason, Process, ProcessType
from accelscope.readers.nvidia.nvml_ask import Ask

NO_INSTANCE = 0xFFFFFFFF  # NVML's word for "not in a MIG instance"
_LISTS = (
    (ProcessType.COMPUTE, False, "nvmlDeviceGetComputeRunningProcesses"),
    (ProcessType.GRAPHICS, False, "nvmlDeviceGetGraphicsRunningProcesses"),
    (ProcessType.COMPUTE, True, "nvmlDeviceGetMPSComputeRunningProcesses"),
)
_FORMS = ("_v3", "_v2")  # of each list, the newest first


@dataclass(slots=True)
class _Use:
    """Utilisation of one process, averaged over the driver's samples since the last reading."""

    samples: int = 0
    sm: int = 0
    memory: int = 0
    encoder: int = 0
    decoder: int = 0

    def add(self, sample: Any) -> None:
        self.samples += 1
        self.sm += sample.smUtil
        self.memory += sample.memUtil
        self.encoder += sample.encUtil
        self.decoder += sample.decUtil

    def ratio(self, percent_sum: int) -> float | None:
        return percent_sum / self.samples / 100 if self.samples else None


class ProcessLister:
    def __init__(self, binding: Any, handle: Any, ask: Ask) -> None:
        self._nvml = binding
        self._handle = handle
        self._ask = ask
        self._last_sample = 0

    def read(self, device: str, index: int, partitions: dict[tuple[int, int], str]) -> tuple[Process, ...]:
        """`partitions` maps (GPU instance, compute instance) to the partition's id."""
        use = self._use()
        seen: dict[tuple[int, int, int], Process] = {}
        for kind, mps, function in _LISTS:
            for info in self._list(function, kind, mps=mps):
                gpu_instance = getattr(info, "gpuInstanceId", NO_INSTANCE)
                compute_instance = getattr(info, "computeInstanceId", NO_INSTANCE)
                key = (info.pid, gpu_instance, compute_instance)
                if key in seen:
                    seen[key] = _both(seen[key], kind, mps=mps)
                    continue
                samples = use.get(info.pid, _Use())
                in_instance = gpu_instance not in (NO_INSTANCE, None)
                seen[key] = Process(
                    pid=info.pid,
                    device=device,
                    device_index=index,
                    partition=partitions.get((gpu_instance, compute_instance)),
                    gpu_instance_id=gpu_instance if in_instance else None,
                    compute_instance_id=compute_instance if in_instance else None,
                    type=kind,
                    mps=mps,
                    memory_bytes=info.usedGpuMemory,
                    utilization_ratio=samples.ratio(samples.sm),
                    memory_utilization_ratio=samples.ratio(samples.memory),
                    encoder_utilization_ratio=samples.ratio(samples.encoder),
                    decoder_utilization_ratio=samples.ratio(samples.decoder),
                )
        return tuple(seen.values())

    def _list(self, function: str, kind: ProcessType, *, mps: bool) -> list[Any]:
        """The newest form of the list that this driver has. One that it has in no form is absent as a whole:
        an empty list would pass for "nobody uses it"."""
        field = f"processes.{'mps' if mps else kind}"
        reason = AbsenceReason.NOT_KNOWN
        for form in _FORMS:
            listed: list[Any] | None = self._ask(f"{field}{form}", function + form, self._handle)
            if listed is not None:
                return listed
            refusal = self._ask.forget(f"{field}{form}")
            if reason is AbsenceReason.NOT_KNOWN and refusal is not None:
                reason = refusal
        self._ask.miss(field, reason)
        return []

    def _use(self) -> dict[int, _Use]:
        function = "nvmlDeviceGetProcessUtilization"
        samples = self._ask("processes.utilization", function, self._handle, self._last_sample)
        if samples is None:
            function = "nvmlDeviceGetProcessesUtilizationInfo"
            samples = self._ask("processes.utilization_info", function, self._handle, self._last_sample)
        if samples is None:
            return {}
        self._ask.forget("processes.utilization")
        use: dict[int, _Use] = {}
        for sample in samples:
            # The driver pads its answer with empty entries, and some versions with stale ones.
            if sample.pid and sample.smUtil <= 100 and sample.timeStamp > self._last_sample:
                use.setdefault(sample.pid, _Use()).add(sample)
        self._last_sample = max((s.timeStamp for s in samples), default=self._last_sample)
        return use


def _both(known: Process, kind: ProcessType, *, mps: bool) -> Process:
    together = known.type if known.type is kind else ProcessType.BOTH
    return replace(known, type=together, mps=known.mps or mps)
