"""GPM: the profiling counters of Hopper and later cards, as ratios between two samples."""

import math
from contextlib import suppress
from typing import Any

# Metric numbers of nvml.h, and the fields of Device and Partition they become.
ACTIVITY = {
    1: "graphics_active_ratio",
    2: "sm_active_ratio",
    3: "sm_occupancy_ratio",
    5: "tensor_active_ratio",
    10: "dram_active_ratio",
    11: "fp64_active_ratio",
    12: "fp32_active_ratio",
    13: "fp16_active_ratio",
}
PCIE = {20: "transmit_bytes_per_second", 21: "receive_bytes_per_second"}
_MIB = 2**20


class Gpm:
    """Samples of one GPU, or of one GPU instance of it. The first reading has nothing to compare with."""

    def __init__(self, binding: Any, handle: Any, gpu_instance_id: int | None = None) -> None:
        self._nvml = binding
        self._handle = handle
        self._instance = gpu_instance_id
        self._before: Any = None
        self._spare: Any = None

    def read(self) -> dict[str, float]:
        """Field -> value since the last reading. Raises the binding's NVMLError."""
        sample = self._spare or self._nvml.nvmlGpmSampleAlloc()
        self._spare = None
        try:
            if self._instance is None:
                self._nvml.nvmlGpmSampleGet(self._handle, sample)
            else:
                self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
        except self._nvml.NVMLError:
            self._spare = sample
            raise
        before, self._before = self._before, sample
        if before is None:
            return {}
        self._spare = before
        return self._between(before, sample)

    def _between(self, before: Any, after: Any) -> dict[str, float]:
        wanted = (*ACTIVITY, *PCIE)
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(wanted)
        request.sample1, request.sample2 = before, after
        for place, metric in enumerate(wanted):
            request.metrics[place].metricId = metric
        self._nvml.nvmlGpmMetricsGet(request)
        values = {}
        for place, metric in enumerate(wanted):
            answer = request.metrics[place]
            if answer.nvmlReturn != 0 or not math.isfinite(answer.value):
                continue
            if metric in ACTIVITY:
                values[ACTIVITY[metric]] = round(answer.value / 100, 6)  # no card measures finer
            else:
                values[PCIE[metric]] = answer.value * _MIB
        return values

    def __del__(self) -> None:
        """NVML allocated the samples; they go when the card is forgotten. After a shutdown there is nothing
        left to free."""
        if self._nvml.nvmlLib is None:
            return
        for sample in (self._before, self._spare):
            if sample is not None:
                with suppress(self._nvml.NVMLError):
                    self._nvml.nvmlGpmSampleFree(sample)
