"""Every known difference between what a program reports and what the agent reports about the same node.

`right` is who is right. `holds` limits an entry to the difference that it explains, and to a device in the
state that explains it: any other value of the same field still fails. Every comparison checks that no entry
also explains an equal value that changes or is missing.
"""

from collections.abc import Callable
from dataclasses import fields

from tests.reality.comparison import Difference, Finding

from accelscope.model import Device, HealthState

_ROUNDED_UNIT = 15.3 / (1e6 / 65536)  # of the counter of energy, in AMD's library
_NAMES = [each.name for each in fields(Device)]
_IDENTITY = frozenset(_NAMES[: _NAMES.index("health")])  # that a device keeps in every state


def _measured(finding: Finding) -> bool:
    """A value that the snapshot does not have, and that does not identify the device."""
    return finding.ours is None and finding.path.partition(".")[0] not in _IDENTITY


def _lost(finding: Finding) -> bool:
    values = finding.values
    return (
        _measured(finding) and values.get("stale") is True and values.get("health.state") == HealthState.LOST
    )


def _suspended(finding: Finding) -> bool:
    return _measured(finding) and finding.values.get("health.vendor_word") == "suspended"


def _absent(*reasons: str) -> Callable[[Finding], bool]:
    """The snapshot lists the value as absent for one of these reasons."""

    def holds(finding: Finding) -> bool:
        return finding.ours is None and finding.values.get(f"absent.{finding.path}.reason") in reasons

    return holds


def _zero_for_unknown(finding: Finding) -> bool:
    return finding.theirs == 0 and finding.ours is None


def _rounded(per_joule: float) -> Callable[[Finding], bool]:
    def holds(finding: Finding) -> bool:
        theirs, ours = finding.theirs, finding.ours
        if not isinstance(theirs, int | float) or not isinstance(ours, int | float) or not ours:
            return False
        return abs(theirs / per_joule / ours / _ROUNDED_UNIT - 1) < 1e-4

    return holds


def _files_counted_twice(unit: int) -> Callable[[Finding], bool]:
    """The simulated processes have two descriptors of each open device file."""

    def holds(finding: Finding) -> bool:
        return isinstance(finding.ours, int) and finding.theirs == 2 * (finding.ours // 1024) * unit

    return holds


def _of_the_gpu(finding: Finding) -> bool:
    """The value of the GPU, in whole mebibytes, for that of a partition."""
    theirs, ours = finding.theirs, finding.values.get(finding.path.rpartition(".")[2])
    if not isinstance(theirs, int | float) or not isinstance(ours, int) or finding.ours is None:
        return False
    return abs(theirs - ours) <= 1 << 20


def _idle_core(finding: Finding) -> bool:
    core = finding.path.rpartition(".")[0]
    return _zero_for_unknown(finding) and finding.values.get(f"{core}.occupied") is not True


def _counted_at_the_first(finding: Finding) -> bool:
    """An earlier compute instance of the same GPU instance has the memory."""
    _, number, name = finding.path.split(".")
    owner = finding.values.get(f"partitions.{number}.gpu_instance_id")
    return finding.ours is None and any(
        finding.values.get(f"partitions.{n}.gpu_instance_id") == owner
        and finding.values.get(f"partitions.{n}.{name}") is not None
        for n in range(int(number))
    )


FURIOSA = (
    Difference(
        program="furiosa-smi*",
        field="core.*cycles",
        right="accelscope",
        reason="the library reads no counters of a core that is not occupied, and reports 0",
        holds=_idle_core,
    ),
    Difference(
        program="furiosa-smi-py",
        versions="2026.1.*",
        field="memory.used",
        right="accelscope",
        reason="this version asks the device file npu*dmar, which has no driver here, and reports 0",
        holds=lambda finding: finding.theirs == 0 and finding.ours is not None,
    ),
)


def _sampled_by_hopper(finding: Finding) -> bool:
    """A GPU with MIG has such samples of its instances only."""
    return (
        finding.values.get("architecture") == "hopper"
        and finding.values.get("mig_enabled") is not True
        and finding.ours is not None
        and finding.theirs is not None
    )


NVIDIA = (
    Difference(
        program="nvitop",
        field="pcie.*",
        right="both",
        reason="nvitop shows the rate of the last 20 ms; from Hopper on the snapshot has the mean since the "
        "last collection",
        holds=_sampled_by_hopper,
    ),
    Difference(
        program="nvitop",
        field="mig.*.memory.*",
        right="both",
        reason="compute instances of one GPU instance share its memory, which the snapshot has once",
        holds=_counted_at_the_first,
    ),
    Difference(
        program="gpustat",
        field="name",
        right="both",
        reason="the state of a lost GPU is in its name; the snapshot has a health",
        holds=lambda finding: finding.theirs == "((GPU is lost))" and finding.values.get("stale") is True,
    ),
)

_UNIT_REASON = "AMD's library rounds the unit of the energy counter, 2^-16 J, up to 15.3 µJ"
_EMPTY_ENERGY = "the energy counter of the table is not filled (32 bits of ones), or belongs to the other die"
_OTHER_DIE = "power and its limits are of the card: the snapshot has them once, at the first of the two dies"
_ASLEEP = "the GPU is suspended: the agent reads nothing that wakes it"
_GFX_NAMES = {("gfx9010", "gfx90a"), ("gfx11000", "gfx1100"), ("gfx11003", "gfx1103")}
AMD = (
    Difference(
        program="rocm-smi",
        field="Accumulated Energy (uJ)",
        right="accelscope",
        reason=_UNIT_REASON,
        holds=_rounded(per_joule=1e6),
    ),
    Difference(
        program="amd-smi",
        field="metric.energy.*",
        right="accelscope",
        reason=_UNIT_REASON,
        holds=_rounded(per_joule=1),
    ),
    *(
        Difference(
            program=program,
            nodes=nodes,
            field=field,
            right="accelscope",
            reason=_EMPTY_ENERGY,
            holds=_absent("not_supported", "shared", "suspended"),
        )
        for program, field in (("rocm-smi", "Accumulated Energy (uJ)"), ("amd-smi", "metric.energy.*"))
        for nodes in ("amd-radeon", "amd-mi250")
    ),
    *(
        Difference(
            program=program,
            nodes="amd-mi250",
            field=field,
            right="both",
            reason=_OTHER_DIE,
            holds=_absent("shared"),
        )
        for program, field in (
            ("rocm-smi", "* Graphics Package Power (W)"),
            ("nvtop", "power_draw"),
            ("amd-smi", "metric.power.socket_power"),
            ("amd-smi", "static.limit.*power*"),
        )
    ),
    *(
        Difference(
            program=program,
            nodes="amd-radeon",
            field=field,
            right="accelscope",
            reason=_ASLEEP,
            holds=_suspended,
        )
        for program, field in (
            ("rocm-smi", "*VRAM*"),
            ("nvtop", "mem_util"),
            ("amd-smi", "metric.mem_usage.*"),
            ("amd-smi", "static.vram.size"),
            ("amd-smi", "static.limit.*power*"),
        )
    ),
    Difference(
        program="amd-smi",
        field="metric.ecc.total_*",
        right="accelscope",
        reason="a card without ECC gets counts of 0",
        holds=lambda finding: (
            _zero_for_unknown(finding) and str(finding.values.get("architecture")).startswith("gfx11")
        ),
    ),
    Difference(
        program="amd-smi",
        nodes="amd-radeon",
        field="static.numa.node",
        right="accelscope",
        reason="the kernel has -1 for a machine with one NUMA node",
        holds=_zero_for_unknown,
    ),
    Difference(
        program="amd-smi",
        versions="6.1.2*",
        nodes="amd-radeon",
        field="static.limit.*power*",
        right="accelscope",
        reason="graphics of a processor have no power limit, and get 0",
        holds=lambda finding: _zero_for_unknown(finding) and finding.values.get("architecture") == "gfx1103",
    ),
    Difference(
        program="rocm-smi",
        versions="6.1.2*",
        field="GFX Version",
        right="accelscope",
        reason="this version prints the parts of the number with a digit too many",
        holds=lambda finding: (finding.theirs, finding.ours) in _GFX_NAMES,
    ),
    Difference(
        program="rocm-smi",
        nodes="amd-radeon",
        field="Card Series",
        right="accelscope",
        reason="without a product name the vendor's number is printed",
        holds=lambda finding: finding.theirs == "0x1002" and finding.ours is None,
    ),
    Difference(
        program="rocm-smi",
        nodes="amd-radeon",
        field="Unique ID",
        right="accelscope",
        reason="0 stands for a GPU without an id",
        holds=lambda finding: finding.theirs == "0x0" and finding.ours is None,
    ),
    *(
        Difference(
            program="amd-smi",
            versions=versions,
            field="process.*.memory_of_files",
            right="accelscope",
            reason=reason,
            holds=_files_counted_twice(unit),
        )
        for versions, unit, reason in (
            ("6.1.2*", 1024, "each descriptor of an open device file is added; two may be of one open file"),
            ("10.*", 1000, "the same, and a KiB of the driver is taken for 1000 bytes"),
        )
    ),
    Difference(
        program="amd-smi",
        versions="6.1.2*",
        field="partition.*.memory_*",
        right="accelscope",
        reason="each partition gets the memory of the whole GPU",
        holds=_of_the_gpu,
    ),
    Difference(
        program="nvtop",
        nodes="amd-radeon",
        field="device_name",
        right="program",
        reason="libdrm has names of chips; the agent has those that the driver reports",
        holds=lambda finding: (
            finding.ours is None and finding.values.get("absent.model.reason") == "not_known"
        ),
    ),
    Difference(
        program="*",
        field="*",
        right="both",
        reason="the files of a lost GPU keep their last values; the snapshot has its identity only",
        holds=_lost,
    ),
)

DIFFERENCES: tuple[Difference, ...] = (*FURIOSA, *NVIDIA, *AMD)
