"""Processes on one GPU through NVML: who holds memory, and who ran since the last reading."""

from dataclasses import dataclass, replace
from typing import Any

from accelscope.model import AbsenceReason, Process, ProcessType
from accelscope.vendors.nvidia.nvml_ask import Ask

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


# NVML returns a sample only for a process that ran during the period: one without a sample did nothing.
_IDLE = _Use(samples=1)
_UNKNOWN = _Use()
_SAMPLERS = (
    ("processes.utilization", "nvmlDeviceGetProcessUtilization"),
    ("processes.utilization_info", "nvmlDeviceGetProcessesUtilizationInfo"),
)


class ProcessLister:
    def __init__(self, binding: Any, handle: Any, ask: Ask) -> None:
        self._nvml = binding
        self._handle = handle
        self._ask = ask
        self._last_sample = 0

    def read(
        self, device: str, index: int, partitions: dict[tuple[int, int], str], *, mig: bool
    ) -> tuple[Process, ...]:
        """`partitions` maps (GPU instance, compute instance) to the partition's id."""
        use = self._use(mig=mig)
        seen: dict[tuple[int, int, int], Process] = {}
        for kind, mps, function in _LISTS:
            for info in self._list(function, kind, mps=mps):
                gpu_instance = getattr(info, "gpuInstanceId", NO_INSTANCE)
                compute_instance = getattr(info, "computeInstanceId", NO_INSTANCE)
                key = (info.pid, gpu_instance, compute_instance)
                if key in seen:
                    seen[key] = _both(seen[key], kind, mps=mps)
                    continue
                samples = _UNKNOWN if use is None else use.get(info.pid, _IDLE)
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

    def _use(self, *, mig: bool) -> dict[int, _Use] | None:
        """Use of the processes that have samples, by pid. None: not measured. In MIG mode the driver
        samples no process, and may still answer "nothing found"."""
        if mig:
            for field, _ in _SAMPLERS:
                self._ask.miss(field, AbsenceReason.NOT_SUPPORTED)
            return None
        samples = self._samples()
        if samples is None:
            return None
        use: dict[int, _Use] = {}
        for sample in samples:
            # The driver pads its answer with empty entries, and some versions with stale ones.
            if sample.pid and sample.timeStamp > self._last_sample:
                known = use.setdefault(sample.pid, _Use())
                if sample.smUtil <= 100:
                    known.add(sample)
        self._last_sample = max((s.timeStamp for s in samples), default=self._last_sample)
        return use

    def _samples(self) -> list[Any] | None:
        """Samples since the last reading, by the first function that the driver has."""
        for field, function in _SAMPLERS:
            samples: list[Any] | None = self._ask(field, function, self._handle, self._last_sample)
            if samples is None and self._ask.why_not(field) is AbsenceReason.NO_SAMPLE:
                samples = []
            if samples is not None:
                for asked, _ in _SAMPLERS:
                    self._ask.forget(asked)
                return samples
        return None


def _both(known: Process, kind: ProcessType, *, mps: bool) -> Process:
    together = known.type if known.type is kind else ProcessType.BOTH
    return replace(known, type=together, mps=known.mps or mps)
