"""How a simulated GPU behaves: from its processes' loads and its faults to what it shows at an instant."""

from collections.abc import Iterable, Sequence

from accelscope.simulate import identity
from accelscope.simulate.faults import Fault, FaultKind, lasted
from accelscope.simulate.physics import DeviceLoad, PowerDraw
from accelscope.simulate.workload import Placement
from accelscope.vendors.amd.simulated.gpu import Gpu, Part
from accelscope.vendors.amd.simulated.readings import GpuReading, PartReading, ProcessReading

_MIB = 1 << 20
_DRIVER_BYTES = 283 * _MIB  # what the driver itself holds on an Instinct
_BUSY = 0.005  # below this a driver's sampling sees nothing
_POWER_AT_FULL_LOAD = 0.97  # of the limit
_HEADROOM_AT_FULL_POWER = 22  # degrees below slowdown
_STORM_CORRECTED_PER_SECOND = 40
_STORM_SECONDS_PER_UNCORRECTED = 30
_STORM_SECONDS_PER_PAGE = 60
_DEVICE_FAULTS = (FaultKind.VANISHED, FaultKind.LOST, FaultKind.HANG)


class GpuDynamics:
    def __init__(self, gpu: Gpu, dies: Iterable[Gpu], placements: Sequence[Placement]) -> None:
        """`dies` are all of its module, this one among them."""
        self._gpu = gpu
        self._placements = tuple(p for p in placements if p.device == gpu.slot)
        share = 1 / len(gpu.parts)
        self._load = DeviceLoad((p, share) for p in self._placements)
        slots = {die.slot for die in dies}
        together = DeviceLoad((p, share / len(slots)) for p in placements if p.device in slots)
        full = gpu.spec.power_limit_watts * _POWER_AT_FULL_LOAD
        idle = gpu.card.power.idle_watts * self._between(0.96, 1.04, "idle")
        self._power = PowerDraw(idle, max(0.0, full - idle), together)

    def _between(self, low: float, high: float, name: str) -> float:
        # By module: what its dies share is the same for both.
        return identity.between(low, high, self._gpu.seed, "amd", name, self._gpu.module)

    def reading(self, at: float, faults: Sequence[Fault], index: int | None) -> GpuReading:
        """`faults` are all that this GPU ever had up to now; `index` its place in the enumeration."""
        card = self._gpu.card
        active = {fault.kind for fault in faults if fault.active(at)}
        hot = FaultKind.HOT in active
        load = self._load.mean(at)
        parts = tuple(self._part(part, at) for part in self._gpu.parts)
        edge = card.crit_celsius + 2.0 if hot else self._celsius(at)
        clock = card.sclk_mhz[-1] if load > _BUSY else card.sclk_mhz[0]
        return GpuReading(
            gpu=self._gpu,
            index=index,
            fault=next((str(kind) for kind in _DEVICE_FAULTS if kind in active), None),
            busy_percent=min(100, round(100 * load)),
            memory_busy_percent=min(100, round(100 * self._memory_traffic(at))),
            vram_used_bytes=sum(part.vram_used_bytes for part in parts) + _DRIVER_BYTES,
            edge_millicelsius=round(edge) * 1000,
            junction_millicelsius=round(edge + 4 + 10 * load) * 1000,
            memory_millicelsius=round(edge * 0.93) * 1000,
            power_microwatts=int(self._power.mean(at)) * 1_000_000,
            energy_microjoules=int(1e6 * (self._power.joules(at) + self._between(1e6, 9e8, "energy"))),
            sclk_mhz=clock * 6 // 10 if hot else clock,
            mclk_mhz=card.mclk_mhz[-1] if load > _BUSY else card.mclk_mhz[0],
            millivolts=card.gfx_millivolts,
            fan_percent=None if card.fan_rpm is None else self._fan_percent(edge),
            pcie_replays=int(self._between(0, 4, "replays")),
            errors=self._errors(at, faults),
            bad_pages=sum(int(s // _STORM_SECONDS_PER_PAGE) for s in _storms(faults, at)),
            throttled=hot,
            parts=parts,
        )

    def _celsius(self, at: float) -> float:
        ambient = self._gpu.spec.ambient_celsius
        top = self._gpu.card.crit_celsius - _HEADROOM_AT_FULL_POWER
        return self._power.celsius(at, ambient=ambient, at_full_power=top)

    def _memory_traffic(self, at: float) -> float:
        share = 1 / len(self._gpu.parts)
        return sum(p.curve.mean(at) * p.memory_intensity * share for p in self._placements)

    @staticmethod
    def _fan_percent(celsius: float) -> int:
        return 0 if celsius < 45 else min(100, round((celsius - 45) * 2.2) + 18)

    def _errors(self, at: float, faults: Sequence[Fault]) -> dict[str, tuple[int, int]]:
        storms = _storms(faults, at)
        corrected = sum(int(seconds * _STORM_CORRECTED_PER_SECOND) for seconds in storms)
        uncorrected = sum(int(seconds // _STORM_SECONDS_PER_UNCORRECTED) for seconds in storms)
        counts = dict.fromkeys(self._gpu.card.ras_blocks, (0, 0))
        if "umc" in counts:
            counts["umc"] = (uncorrected, corrected)
        return counts

    def _part(self, part: Part, at: float) -> PartReading:
        here = [p for p in self._placements if (p.instance or 0) == part.number and p.curve.runs_at(at)]
        processes = tuple(self._process(p, at) for p in here)
        return PartReading(
            part=part,
            busy_percent=min(100, round(100 * sum(p.curve.mean(at) for p in here))),
            vram_used_bytes=sum(process.vram_bytes for process in processes),
            processes=processes,
        )

    def _process(self, placement: Placement, at: float) -> ProcessReading:
        """Only chips that draw tell how long a process ran on an engine."""
        spec = placement.process.spec
        ran = placement.curve.integral(at) - placement.curve.integral(0.0) + 600.0
        tells = not self._gpu.card.ras_blocks
        draws, computes = "G" in spec.type, "C" in spec.type
        return ProcessReading(
            placement=placement,
            vram_bytes=placement.memory_bytes(at),
            load=placement.curve.mean(at) if computes else 0.0,
            graphics_ns=int(1e9 * ran) if tells and draws else 0,
            compute_ns=int(1e9 * ran) if tells and computes and not draws else 0,
            encoder_ns=int(1e9 * ran * spec.encoder) if tells else 0,
            decoder_ns=int(1e9 * ran * spec.decoder) if tells else 0,
        )


def _storms(faults: Sequence[Fault], at: float) -> tuple[float, ...]:
    return lasted(faults, FaultKind.ECC_STORM, at)
