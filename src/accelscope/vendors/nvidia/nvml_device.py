"""One GPU read through NVML, with its processes."""

import ctypes
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from struct import Struct
from typing import Any

from accelscope.model import (
    AbsenceReason,
    Clock,
    Device,
    ErrorCount,
    Fan,
    Health,
    HealthState,
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
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS, find_problems, gpu_id, limit_by_margin
from accelscope.vendors.nvidia.nvml_library import TRANSIENT, NvmlCaller, decode_text
from accelscope.vendors.nvidia.nvml_parts import ACTIVITY, PCIE, Gpm, MemoryErrors, MigInstances, NvLinks

NO_INSTANCE = 0xFFFFFFFF  # the process is not in a MIG instance
_LISTS = (
    (ProcessType.COMPUTE, False, "nvmlDeviceGetComputeRunningProcesses"),
    (ProcessType.GRAPHICS, False, "nvmlDeviceGetGraphicsRunningProcesses"),
    (ProcessType.COMPUTE, True, "nvmlDeviceGetMPSComputeRunningProcesses"),
)
_VERSIONS = ("_v3", "_v2")  # of each list function, the newest first


@dataclass(slots=True)
class _SampledUse:
    """Utilisation of one process: the sums, in percent, of the driver's samples since the last reading."""

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


# NVML returns samples only of processes that ran during the period. A process without a sample was idle.
_IDLE = _SampledUse(samples=1)
_UNKNOWN = _SampledUse()
_SAMPLERS = (
    ("processes.utilization", "nvmlDeviceGetProcessUtilization"),
    ("processes.utilization_info", "nvmlDeviceGetProcessesUtilizationInfo"),
)


class ProcessLister:
    """Lists the processes of a GPU with their memory and their utilisation since the last reading."""

    def __init__(self, binding: Any, handle: Any, call: NvmlCaller) -> None:
        self._nvml = binding
        self._handle = handle
        self._call = call
        self._last_sample = 0

    def read(
        self, device: str, index: int, partitions: dict[tuple[int, int], str], *, mig: bool
    ) -> tuple[Process, ...]:
        """`partitions` maps (GPU instance, compute instance) to the partition's id."""
        use = self._use(mig=mig)
        processes: dict[tuple[int, int, int], Process] = {}
        for kind, mps, function in _LISTS:
            for info in self._list(function, kind, mps=mps):
                gpu_instance = getattr(info, "gpuInstanceId", NO_INSTANCE)
                compute_instance = getattr(info, "computeInstanceId", NO_INSTANCE)
                key = (info.pid, gpu_instance, compute_instance)
                if key in processes:
                    processes[key] = _with_type(processes[key], kind, mps=mps)
                    continue
                samples = _UNKNOWN if use is None else use.get(info.pid, _IDLE)
                in_instance = gpu_instance not in (NO_INSTANCE, None)
                processes[key] = Process(
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
        return tuple(processes.values())

    def _list(self, function: str, kind: ProcessType, *, mps: bool) -> list[Any]:
        """The list from the newest version of the function that the driver has. Without any version the list
        is recorded as absent: an empty list alone would mean that no process uses the GPU."""
        field = f"processes.{'mps' if mps else kind}"
        reason = AbsenceReason.NOT_KNOWN
        for version in _VERSIONS:
            listed: list[Any] | None = self._call(f"{field}{version}", function + version, self._handle)
            if listed is not None:
                return listed
            absence = self._call.discard(f"{field}{version}")
            if reason is AbsenceReason.NOT_KNOWN and absence is not None:
                reason = absence
        self._call.record(field, reason)
        return []

    def _use(self, *, mig: bool) -> dict[int, _SampledUse] | None:
        """Utilisation of the processes that have samples, by pid. None: not measured. In MIG mode the driver
        samples no process, although some versions return "not found" instead of "not supported"."""
        if mig:
            for field, _ in _SAMPLERS:
                self._call.record(field, AbsenceReason.NOT_SUPPORTED)
            return None
        samples = self._samples()
        if samples is None:
            return None
        use: dict[int, _SampledUse] = {}
        for sample in samples:
            # The driver pads the list with empty entries, and some versions with old ones.
            if sample.pid and sample.timeStamp > self._last_sample:
                process_use = use.setdefault(sample.pid, _SampledUse())
                if sample.smUtil <= 100:
                    process_use.add(sample)
        self._last_sample = max((s.timeStamp for s in samples), default=self._last_sample)
        return use

    def _samples(self) -> list[Any] | None:
        """Samples since the last reading, from the first function that the driver has."""
        for field, function in _SAMPLERS:
            samples: list[Any] | None = self._call(field, function, self._handle, self._last_sample)
            if samples is None and self._call.absence_of(field) is AbsenceReason.NO_SAMPLE:
                samples = []
            if samples is not None:
                for other, _ in _SAMPLERS:
                    self._call.discard(other)
                return samples
        return None


def _with_type(process: Process, kind: ProcessType, *, mps: bool) -> Process:
    """The process of one list, after another list contained it as `kind`."""
    combined = process.type if process.type is kind else ProcessType.BOTH
    return replace(process, type=combined, mps=process.mps or mps)


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
_MEMORY_TEMPERATURE = 82  # field ids of nvml.h
_RECOVERY_ACTION = 230
_UNKNOWN_PERFORMANCE_STATE = 32
_HEALTHY = Health(HealthState.OK)
# Field of the model, threshold of nvml.h in degrees, and the field id of the same threshold as a margin.
_TEMPERATURE_LIMITS = (
    ("temperature_slowdown_celsius", 1, 194),
    ("temperature_shutdown_celsius", 0, 193),
)
# Drivers that measure PCIe traffic in whole megabytes return multiples of 1,000 KB/s: the prefix is decimal.
_BYTES_IN_KB = 1000


_FIELDS = (
    (_MEMORY_TEMPERATURE, 0),
    (_RECOVERY_ACTION, 0),
    *((field, 0) for _, _, field in _TEMPERATURE_LIMITS),
)
# nvmlFieldValue_t is packed and unpacked here, because the binding's structures convert every access: they
# took a tenth of a collection with 18 links. Field id, scope, timestamp, latency, type, return code, value:
_FIELD_VALUE = Struct("@IIqqII8s")
_UNION_MEMBERS = tuple(map(Struct, ("@d", "@I", "@L", "@Q", "@q", "@i", "@H")))  # of the value, by its type


@lru_cache(maxsize=8)  # the same for all GPUs of a model
def _field_request(wanted: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(_FIELD_VALUE.pack(number, scope, 0, 0, 0, 0, b"") for number, scope in wanted)


class NvmlDevice:
    """One GPU with what stays the same between readings: handle, identity and permanent absences.

    It fills `Device` directly. `DeviceDraft` parses texts and merges the absences of a group, while NVML
    returns typed values and one reason per call. The constructor raises ReaderError if the driver cannot
    identify the GPU at the moment.
    """

    def __init__(self, binding: Any, index: int, driver_version: str | None, sys: Path) -> None:
        self._nvml = binding
        self._index = index
        self._driver_version = driver_version
        self._sys = sys
        self._was_mig: bool | None = None
        self._numa_nodes: dict[str, int | None] = {}  # by PCI address
        self._call = NvmlCaller(binding)
        self._call.begin()
        self.handle = binding.nvmlDeviceGetHandleByIndex(index)
        self.id = self._identify()
        self._links = NvLinks(self.handle, self._call)
        self._memory_errors = MemoryErrors(self.handle, self._call)
        self._mig = MigInstances(binding, self.handle, self._call)
        self._processes = ProcessLister(binding, self.handle, self._call)
        self._gpm: Gpm | None = None

    def read(self, now: float, errors: tuple[ErrorCount, ...]) -> Reading:
        call = self._call
        call.begin()
        fields = self._field_values()
        mig = self._mig_mode()
        if mig != self._was_mig:  # MIG mode changes what the card supports
            call.retry_unsupported()
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
            health=_HEALTHY,
            read_at=now,
            performance_state=self._performance_state(),
            persistence_mode=_flag(call("persistence_mode", "nvmlDeviceGetPersistenceMode", self.handle)),
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
            absent=call.absent(),  # complete: every value has been read by now
        )
        problems = find_problems(
            remapped=remapped,
            ecc=ecc,
            throttles=throttles,
            recovery_action=None if recovery is None else int(recovery),
            absent=device.absent,
        )
        if problems:
            device = replace(device, health=problems[0])
        return Reading(device, processes, problems=problems)

    def _identify(self) -> str:
        """Raises ReaderError if a better identifier may be readable later: the id must not change then."""
        identity = self._identity()
        for field in ("uuid", "pci_address", "serial"):
            if identity[field] is not None:
                break
            reason = self._call.absence_of(field)
            if reason in TRANSIENT:
                raise ReaderError(str(reason), f"GPU {self._index}: cannot read {field}: {reason}")
        return gpu_id(
            uuid=identity["uuid"],
            serial=identity["serial"],
            pci=identity["pci_address"],
            index=self._index,
        )

    def _identity(self) -> dict[str, Any]:
        call, handle = self._call.once, self.handle
        pci = call("pci_address", "nvmlDeviceGetPciInfo_v3", handle)
        address = None if pci is None else pci_address(decode_text(pci.busId))
        minor = call("device_name", "nvmlDeviceGetMinorNumber", handle)
        architecture = call("architecture", "nvmlDeviceGetArchitecture", handle)
        return {
            "index": self._index,
            "model": call("model", "nvmlDeviceGetName", handle),
            "architecture": _ARCHITECTURES.get(architecture),
            "uuid": call("uuid", "nvmlDeviceGetUUID", handle),
            "serial": call("serial", "nvmlDeviceGetSerial", handle),
            "pci_address": address,
            "numa_node": self._numa_node(address),
            "device_name": None if minor is None else f"nvidia{minor}",
            "driver_version": self._driver_version,
            "firmware_version": call("firmware_version", "nvmlDeviceGetVbiosVersion", handle),
        }

    def _numa_node(self, address: str | None) -> int | None:
        """The NUMA node that the GPU is attached to, from sysfs. NVML's function returns another one: the
        node that a GPU itself forms."""
        if address is None:
            return None
        if address not in self._numa_nodes:
            self._numa_nodes[address] = numa_node_of(f"{self._sys}/bus/pci/devices/{address}")
        return self._numa_nodes[address]

    def _fixed_values(self) -> dict[str, Any]:
        call, handle = self._call.once, self.handle
        limits = call("power_limit_min_watts", "nvmlDeviceGetPowerManagementLimitConstraints", handle)
        default = call("power_limit_default_watts", "nvmlDeviceGetPowerManagementDefaultLimit", handle)
        return {
            "power_limit_min_watts": None if limits is None else limits[0] / 1000,
            "power_limit_max_watts": None if limits is None else limits[1] / 1000,
            "power_limit_default_watts": _from_milli(default),
        }

    def _field_values(self) -> dict[tuple[int, int], float]:
        """All values that NVML returns by field id, in one call: (field id, scope) -> value."""
        wanted = (*_FIELDS, *self._links.wanted_fields())
        results = ctypes.create_string_buffer(_field_request(wanted), _FIELD_VALUE.size * len(wanted))
        if not self._call.direct(
            "field_values", "nvmlDeviceGetFieldValues", self.handle, len(wanted), results
        ):
            return {}
        values = {}
        for field, (*_, kind, code, content) in zip(wanted, _FIELD_VALUE.iter_unpack(results), strict=True):
            if code == 0:
                [value] = _UNION_MEMBERS[kind].unpack_from(content)
                if math.isfinite(value):
                    values[field] = float(value)
        return values

    def _performance_state(self) -> int | None:
        state = self._call("performance_state", "nvmlDeviceGetPerformanceState", self.handle)
        return None if state == _UNKNOWN_PERFORMANCE_STATE else state

    def _mig_mode(self) -> bool | None:
        mode = self._call("mig_enabled", "nvmlDeviceGetMigMode", self.handle)
        return None if mode is None else bool(mode[0])

    def _utilization(self) -> dict[str, float | None]:
        call, handle = self._call, self.handle
        rates = call("utilization_ratio", "nvmlDeviceGetUtilizationRates", handle)
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
            utilization = call(field, function, handle)
            values[field] = None if utilization is None else utilization[0] / 100
        return values

    def _activity(self, *, mig: bool) -> dict[str, float] | None:
        """Values of GPM. Empty at the first reading; None if GPM is not available for this GPU."""
        support = self._call.once("activity", "nvmlGpmQueryDeviceSupport", self.handle)
        if support is None:
            return None
        if mig or not support.isSupportedDevice:
            self._call.record("activity", AbsenceReason.NOT_SUPPORTED)
            return None
        if self._gpm is None:
            self._gpm = Gpm(self._nvml, self.handle)
        try:
            values = self._gpm.read()
        except self._nvml.NVMLError as error:
            self._call.record_code("activity", error.value)
            return None
        for field in ACTIVITY.values():
            if field not in values:
                self._call.record(field, AbsenceReason.NO_SAMPLE)
        return values

    def _memory(self) -> dict[str, int | None]:
        call, handle = self._call, self.handle
        memory = call("memory_reserved_bytes", "nvmlDeviceGetMemoryInfo", handle, self._nvml.nvmlMemory_v2)
        reserved = None if memory is None else memory.reserved
        if memory is None:  # before driver 510 `used` includes the reserved memory
            memory = call("memory_total_bytes", "nvmlDeviceGetMemoryInfo", handle)
        bar1 = call("bar1_total_bytes", "nvmlDeviceGetBAR1MemoryInfo", handle)
        return {
            "memory_total_bytes": memory.total if memory else None,
            "memory_used_bytes": memory.used if memory else None,
            "memory_free_bytes": memory.free if memory else None,
            "memory_reserved_bytes": reserved,
            "bar1_total_bytes": bar1.bar1Total if bar1 else None,
            "bar1_used_bytes": bar1.bar1Used if bar1 else None,
        }

    def _power(self) -> dict[str, float | None]:
        call, handle = self._call, self.handle
        limit = call("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", handle)
        return {
            "power_watts": _from_milli(call("power_watts", "nvmlDeviceGetPowerUsage", handle)),
            "power_limit_watts": _from_milli(limit),
            "energy_joules": _from_milli(
                call("energy_joules", "nvmlDeviceGetTotalEnergyConsumption", handle)
            ),
        }

    def _temperatures(self, fields: dict[tuple[int, int], float]) -> dict[str, Any]:
        gpu = self._call("temperature_celsius", "nvmlDeviceGetTemperature", self.handle, 0)
        memory = fields.get((_MEMORY_TEMPERATURE, 0))
        sensors = [Sensor("gpu", float(gpu))] if gpu is not None else []
        if memory:  # 0: the board has no such sensor
            sensors.append(Sensor("memory", float(memory)))
        else:
            self._call.record("sensors.memory", AbsenceReason.NOT_SUPPORTED)
        return {
            "temperature_celsius": None if gpu is None else float(gpu),
            "sensors": tuple(sensors),
            **self._temperature_limits(fields, gpu),
        }

    def _temperature_limits(
        self, fields: dict[tuple[int, int], float], gpu: int | None
    ) -> dict[str, float | None]:
        """Cards since Ada have margins instead of thresholds in degrees. Their limits move by a few degrees,
        because the margin is that of the hottest spot and not of the GPU's sensor."""
        limits: dict[str, float | None] = {}
        for name, threshold, field in _TEMPERATURE_LIMITS:
            limit = self._call.once(name, "nvmlDeviceGetTemperatureThreshold", self.handle, threshold)
            threshold_margin = fields.get((field, 0))
            if limit is None and gpu is not None and threshold_margin is not None:
                margin = self._call("temperature_margin", "nvmlDeviceGetMarginTemperature", self.handle)
                self._call.discard("temperature_margin")
                if margin is not None:
                    limit = limit_by_margin(gpu, margin, _signed(threshold_margin))
                    self._call.discard(name)
            limits[name] = None if limit is None else float(limit)
        return limits

    def _fans(self) -> tuple[Fan, ...]:
        count = self._call("fans", "nvmlDeviceGetNumFans", self.handle) or 0
        fans = []
        for index in range(count):
            speed = self._call(f"fans.{index}", "nvmlDeviceGetFanSpeed_v2", self.handle, index)
            if speed is not None:
                fans.append(Fan(index, speed_ratio=speed / 100))
        return tuple(fans)

    def _clocks(self) -> tuple[Clock, ...]:
        clocks = []
        for number, domain in _CLOCKS.items():
            now = self._call(f"clocks.{domain}", "nvmlDeviceGetClockInfo", self.handle, number)
            highest = self._call.once(
                f"clocks.{domain}.max", "nvmlDeviceGetMaxClockInfo", self.handle, number
            )
            if now is not None or highest is not None:
                clocks.append(Clock(domain, _hertz(now), _hertz(highest)))
        return tuple(clocks)

    def _throttles(self) -> tuple[Throttle, ...]:
        call, handle = self._call, self.handle
        supported = call.once("throttles.supported", "nvmlDeviceGetSupportedClocksThrottleReasons", handle)
        active = call("throttles", "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if supported is None or active is None:
            return ()
        return tuple(
            Throttle(reason, bool(active & bit))
            for bit, reason in NVML_THROTTLE_BITS.items()
            if supported & bit
        )

    def _pcie(self, activity: dict[str, float] | None) -> Pcie:
        call, handle = self._call, self.handle
        rates = dict(activity or {})
        for field, counter in zip(PCIE.values(), (0, 1), strict=True):
            if activity is not None and not activity:
                call.record(f"pcie.{field}", AbsenceReason.NO_SAMPLE)
            elif field not in rates:  # without GPM each of these calls measures for 20 ms
                kilobytes = call(f"pcie.{field}", "nvmlDeviceGetPcieThroughput", handle, counter)
                if kilobytes is not None:
                    rates[field] = kilobytes * _BYTES_IN_KB
        return Pcie(
            generation=call("pcie.generation", "nvmlDeviceGetCurrPcieLinkGeneration", handle),
            max_generation=call.once("pcie.max_generation", "nvmlDeviceGetMaxPcieLinkGeneration", handle),
            width=call("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth", handle),
            max_width=call.once("pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth", handle),
            replays_total=call("pcie.replays_total", "nvmlDeviceGetPcieReplayCounter", handle),
            transmit_bytes_per_second=rates.get("transmit_bytes_per_second"),
            receive_bytes_per_second=rates.get("receive_bytes_per_second"),
        )


def _signed(value: float) -> float:
    """Some drivers return a negative number as an unsigned one of 32 bits."""
    return value - 2**32 if value >= 2**31 else value


def _from_milli(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else megahertz * 1e6


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
