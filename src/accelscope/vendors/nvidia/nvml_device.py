"""One GPU through NVML."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelscope.model import (
    AbsenceReason,
    Clock,
    Device,
    ErrorCount,
    Fan,
    Pcie,
    Process,
    ProcessType,
    Reading,
    Sensor,
    Throttle,
    Vendor,
    pci_address,
)
from accelscope.vendors.common.contract import ReaderError
from accelscope.vendors.common.files import numa_node_of
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS, gpu_id, health_of, limit_by_margin
from accelscope.vendors.nvidia.nvml_binding import PASSING, Ask, text_of
from accelscope.vendors.nvidia.nvml_parts import ACTIVITY, PCIE, Gpm, Links, MemoryErrors, MigInstances

# --- nvml processes ------------------------------------------------------------
# Processes on one GPU through NVML: who holds memory, and who ran since the last reading.


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


_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_CLOCKS = {0: "graphics", 1: "sm", 2: "memory", 3: "video"}
_MEMORY_TEMPERATURE = 82  # field numbers of nvml.h
_RECOVERY_ACTION = 230
# Place in the model, temperature threshold of nvml.h, and the field with the same threshold as a margin.
_TEMPERATURE_LIMITS = (
    ("temperature_slowdown_celsius", 1, 194),
    ("temperature_shutdown_celsius", 0, 193),
)
# Drivers that measure PCIe traffic in whole megabytes give multiples of 1,000 KB/s: the prefixes are decimal.
_BYTES_IN_KB = 1000


class NvmlDevice:
    """Keeps what does not change between readings: the handle, the identity, the absences that last.

    Raises ReaderError where the driver does not even say which GPU it is, and may do so later."""

    def __init__(self, binding: Any, index: int, driver_version: str | None, sys: Path) -> None:
        self._nvml = binding
        self._index = index
        self._driver_version = driver_version
        self._sys = sys
        self._was_mig: bool | None = None
        self._numa_nodes: dict[str, int | None] = {}  # by PCI address
        self._ask = Ask(binding)
        self._ask.begin()
        self.handle = self._ask_handle()
        self.id = self._identify()
        self._links = Links(self.handle, self._ask)
        self._memory_errors = MemoryErrors(self.handle, self._ask)
        self._mig = MigInstances(binding, self.handle, self._ask)
        self._processes = ProcessLister(binding, self.handle, self._ask)
        self._gpm: Gpm | None = None

    def read(self, now: float, errors: tuple[ErrorCount, ...]) -> Reading:
        ask = self._ask
        ask.begin()
        fields = self._field_values()
        mig = self._mig_mode()
        if mig != self._was_mig:  # cutting a card up changes what it can be asked for
            ask.start_over()
            self._was_mig = mig
        partitions = self._mig.read() if mig else ()
        remapped, ecc = self._memory_errors.remapped_rows(), self._memory_errors.ecc()
        throttles = self._throttles()
        activity = self._activity(mig=bool(mig))
        values: dict[str, Any] = {
            **self._identity(),
            **self._fixed_values(),
            **self._utilization(),
            **{field: activity[field] for field in ACTIVITY.values() if activity and field in activity},
            **self._memory(),
            **self._power(),
        }
        recovery = fields.get((_RECOVERY_ACTION, 0))
        by_instance = {
            (p.gpu_instance_id, p.compute_instance_id): p.id
            for p in partitions
            if p.gpu_instance_id is not None and p.compute_instance_id is not None
        }
        processes = self._processes.read(self.id, self._index, by_instance, mig=bool(mig))
        device = Device(
            vendor=Vendor("nvidia"),
            id=self.id,
            **values,
            read_at=now,
            performance_state=_known(
                ask("performance_state", "nvmlDeviceGetPerformanceState", self.handle), 32
            ),
            persistence_mode=_flag(ask("persistence_mode", "nvmlDeviceGetPersistenceMode", self.handle)),
            ecc_enabled=self._memory_errors.ecc_mode(),
            mig_enabled=mig,
            **self._temperatures(fields),
            fans=self._fans(),
            clocks=self._clocks(),
            throttles=throttles,
            pcie=self._pcie(activity),
            links=self._links.read(fields),
            ecc=ecc,
            remapped_rows=remapped,
            retired_pages=self._memory_errors.retired_pages(),
            errors=errors,
            partitions=partitions,
            health=health_of(
                now=now,
                remapped=remapped,
                ecc=ecc,
                errors=errors,
                throttles=throttles,
                recovery_action=None if recovery is None else int(recovery),
                absent=ask.absent(),  # late: by now everything was asked for
            ),
            absent=ask.absent(),
        )
        return Reading(device, processes)

    def _ask_handle(self) -> Any:
        return self._nvml.nvmlDeviceGetHandleByIndex(self._index)

    def _identify(self) -> str:
        """Under an id that it has only while its driver is in trouble it would be another device later."""
        known = self._identity()
        for field in ("uuid", "pci_address", "serial"):
            if known[field] is not None:
                break
            why_not = self._ask.why_not(field)
            if why_not in PASSING:
                raise ReaderError(str(why_not), f"GPU {self._index} does not tell its {field}: {why_not}")
        return gpu_id(
            uuid=known["uuid"],
            serial=known["serial"],
            pci=known["pci_address"],
            index=self._index,
        )

    def _identity(self) -> dict[str, Any]:
        ask, handle = self._ask.once, self.handle
        pci = ask("pci_address", "nvmlDeviceGetPciInfo_v3", handle)
        address = None if pci is None else pci_address(text_of(pci.busId))
        minor = ask("device_name", "nvmlDeviceGetMinorNumber", handle)
        architecture = ask("architecture", "nvmlDeviceGetArchitecture", handle)
        return {
            "index": self._index,
            "model": ask("model", "nvmlDeviceGetName", handle),
            "architecture": _ARCHITECTURES.get(architecture),
            "uuid": ask("uuid", "nvmlDeviceGetUUID", handle),
            "serial": ask("serial", "nvmlDeviceGetSerial", handle),
            "pci_address": address,
            "numa_node": self._numa_node(address),
            "device_name": None if minor is None else f"nvidia{minor}",
            "driver_version": self._driver_version,
            "firmware_version": ask("firmware_version", "nvmlDeviceGetVbiosVersion", handle),
        }

    def _numa_node(self, address: str | None) -> int | None:
        """Of the kernel: NVML's own is that of a GPU which is a NUMA node itself, not the one that it is
        attached to."""
        if address is None:
            return None
        if address not in self._numa_nodes:
            self._numa_nodes[address] = numa_node_of(f"{self._sys}/bus/pci/devices/{address}")
        return self._numa_nodes[address]

    def _fixed_values(self) -> dict[str, Any]:
        ask, handle = self._ask.once, self.handle
        limits = ask("power_limit_min_watts", "nvmlDeviceGetPowerManagementLimitConstraints", handle)
        default = ask("power_limit_default_watts", "nvmlDeviceGetPowerManagementDefaultLimit", handle)
        return {
            "power_limit_min_watts": None if limits is None else limits[0] / 1000,
            "power_limit_max_watts": None if limits is None else limits[1] / 1000,
            "power_limit_default_watts": _thousandth(default),
        }

    def _field_values(self) -> dict[tuple[int, int], float]:
        """All values that NVML gives by number, in one call: (number, scope) -> value."""
        limits = [(field, 0) for _, _, field in _TEMPERATURE_LIMITS]
        wanted = [(_MEMORY_TEMPERATURE, 0), (_RECOVERY_ACTION, 0), *limits, *self._links.wanted_fields()]
        answers = self._ask("field_values", "nvmlDeviceGetFieldValues", self.handle, wanted)
        if answers is None:
            return {}
        values = {}
        for (number, scope), answer in zip(wanted, answers, strict=True):
            if answer.nvmlReturn == 0 and math.isfinite(value := _union_value(answer)):
                values[number, scope] = value
        return values

    def _mig_mode(self) -> bool | None:
        mode = self._ask("mig_enabled", "nvmlDeviceGetMigMode", self.handle)
        return None if mode is None else bool(mode[0])

    def _utilization(self) -> dict[str, float | None]:
        ask, handle = self._ask, self.handle
        rates = ask("utilization_ratio", "nvmlDeviceGetUtilizationRates", handle)
        values = {
            "utilization_ratio": None if rates is None else rates.gpu / 100,
            "memory_utilization_ratio": None if rates is None else rates.memory / 100,
        }
        for engine, function in (
            ("encoder", "nvmlDeviceGetEncoderUtilization"),
            ("decoder", "nvmlDeviceGetDecoderUtilization"),
            ("jpeg", "nvmlDeviceGetJpgUtilization"),
            ("optical_flow", "nvmlDeviceGetOfaUtilization"),
        ):
            field = f"{engine}_utilization_ratio"
            answer = ask(field, function, handle)
            values[field] = None if answer is None else answer[0] / 100
        return values

    def _activity(self, *, mig: bool) -> dict[str, float] | None:
        """Empty: there is nothing to compare the first sample with. None: GPM gives nothing of this GPU."""
        support = self._ask.once("activity", "nvmlGpmQueryDeviceSupport", self.handle)
        if support is None:
            return None
        if mig or not support.isSupportedDevice:
            self._ask.miss("activity", AbsenceReason.NOT_SUPPORTED)
            return None
        if self._gpm is None:
            self._gpm = Gpm(self._nvml, self.handle)
        try:
            values = self._gpm.read()
        except self._nvml.NVMLError as error:
            self._ask.refuse("activity", error.value)
            return None
        for field in ACTIVITY.values():
            if field not in values:
                self._ask.miss(field, AbsenceReason.NO_SAMPLE)
        return values

    def _memory(self) -> dict[str, int | None]:
        ask, handle = self._ask, self.handle
        memory = ask("memory_reserved_bytes", "nvmlDeviceGetMemoryInfo", handle, self._nvml.nvmlMemory_v2)
        reserved = None if memory is None else memory.reserved
        if memory is None:  # before driver 510, used contains what the driver reserves
            memory = ask("memory_total_bytes", "nvmlDeviceGetMemoryInfo", handle)
        bar1 = ask("bar1_total_bytes", "nvmlDeviceGetBAR1MemoryInfo", handle)
        return {
            "memory_total_bytes": memory.total if memory else None,
            "memory_used_bytes": memory.used if memory else None,
            "memory_free_bytes": memory.free if memory else None,
            "memory_reserved_bytes": reserved,
            "bar1_total_bytes": bar1.bar1Total if bar1 else None,
            "bar1_used_bytes": bar1.bar1Used if bar1 else None,
        }

    def _power(self) -> dict[str, float | None]:
        ask, handle = self._ask, self.handle
        limit = ask("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", handle)
        return {
            "power_watts": _thousandth(ask("power_watts", "nvmlDeviceGetPowerUsage", handle)),
            "power_limit_watts": _thousandth(limit),
            "energy_joules": _thousandth(ask("energy_joules", "nvmlDeviceGetTotalEnergyConsumption", handle)),
        }

    def _temperatures(self, fields: dict[tuple[int, int], float]) -> dict[str, Any]:
        gpu = self._ask("temperature_celsius", "nvmlDeviceGetTemperature", self.handle, 0)
        memory = fields.get((_MEMORY_TEMPERATURE, 0))
        sensors = [Sensor("gpu", float(gpu))] if gpu is not None else []
        if memory:  # 0 is NVML's answer of a board without that sensor
            sensors.append(Sensor("memory", float(memory)))
        else:
            self._ask.miss("sensors.memory", AbsenceReason.NOT_SUPPORTED)
        return {
            "temperature_celsius": None if gpu is None else float(gpu),
            "sensors": tuple(sensors),
            **self._temperature_limits(fields, gpu),
        }

    def _temperature_limits(
        self, fields: dict[tuple[int, int], float], gpu: int | None
    ) -> dict[str, float | None]:
        """Where a card has no thresholds in degrees (Ada and later), they are margins: it slows down when its
        own margin has fallen to that of the threshold. The limit is then the temperature now plus what is
        left; it moves by a few degrees, since the margin is that of the card's hottest place."""
        limits: dict[str, float | None] = {}
        for place, threshold, field in _TEMPERATURE_LIMITS:
            limit = self._ask.once(place, "nvmlDeviceGetTemperatureThreshold", self.handle, threshold)
            at = fields.get((field, 0))
            if limit is None and gpu is not None and at is not None:
                margin = self._ask("temperature_margin", "nvmlDeviceGetMarginTemperature", self.handle)
                self._ask.forget("temperature_margin")
                if margin is not None:
                    limit = limit_by_margin(gpu, margin, _signed(at))
                    self._ask.forget(place)
            limits[place] = None if limit is None else float(limit)
        return limits

    def _fans(self) -> tuple[Fan, ...]:
        count = self._ask("fans", "nvmlDeviceGetNumFans", self.handle) or 0
        fans = []
        for index in range(count):
            speed = self._ask(f"fans.{index}", "nvmlDeviceGetFanSpeed_v2", self.handle, index)
            if speed is not None:
                fans.append(Fan(index, speed_ratio=speed / 100))
        return tuple(fans)

    def _clocks(self) -> tuple[Clock, ...]:
        clocks = []
        for number, domain in _CLOCKS.items():
            now = self._ask(f"clocks.{domain}", "nvmlDeviceGetClockInfo", self.handle, number)
            top = self._ask(f"clocks.{domain}.max", "nvmlDeviceGetMaxClockInfo", self.handle, number)
            if now is not None or top is not None:
                clocks.append(Clock(domain, _mega(now), _mega(top)))
        return tuple(clocks)

    def _throttles(self) -> tuple[Throttle, ...]:
        ask, handle = self._ask, self.handle
        supported = ask("throttles.supported", "nvmlDeviceGetSupportedClocksThrottleReasons", handle)
        active = ask("throttles", "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if supported is None or active is None:
            return ()
        return tuple(
            Throttle(reason, bool(active & bit))
            for bit, reason in NVML_THROTTLE_BITS.items()
            if supported & bit
        )

    def _pcie(self, activity: dict[str, float] | None) -> Pcie:
        ask, handle = self._ask, self.handle
        rates = dict(activity or {})
        for field, counter in zip(PCIE.values(), (0, 1), strict=True):
            if activity is not None and not activity:
                ask.miss(f"pcie.{field}", AbsenceReason.NO_SAMPLE)
            elif field not in rates:  # each of these calls watches the bus for 20 ms; GPM gives it for free
                kilobytes = ask(f"pcie.{field}", "nvmlDeviceGetPcieThroughput", handle, counter)
                if kilobytes is not None:
                    rates[field] = kilobytes * _BYTES_IN_KB
        return Pcie(
            generation=ask("pcie.generation", "nvmlDeviceGetCurrPcieLinkGeneration", handle),
            max_generation=ask("pcie.max_generation", "nvmlDeviceGetMaxPcieLinkGeneration", handle),
            width=ask("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth", handle),
            max_width=ask("pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth", handle),
            replays_total=ask("pcie.replays_total", "nvmlDeviceGetPcieReplayCounter", handle),
            transmit_bytes_per_second=rates.get("transmit_bytes_per_second"),
            receive_bytes_per_second=rates.get("receive_bytes_per_second"),
        )


def _signed(value: float) -> float:
    """Some drivers give a negative number as an unsigned one of 32 bits."""
    return value - 2**32 if value >= 2**31 else value


def _union_value(answer: Any) -> float:
    """The member of nvmlValue_t that the answer's type names."""
    member = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[answer.valueType]
    return float(getattr(answer.value, member))


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _mega(value: int | None) -> float | None:
    return None if value is None else value * 1e6


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _known(value: int | None, unknown: int) -> int | None:
    return None if value == unknown else value
