"""Every known difference between what a program reports and what the agent reports about the same node.

`right` is who is right. `holds` limits the entry to the difference that it explains: any other value of the
same field still fails.
"""

from tests.reality.comparison import Difference, Value

_ROUNDED_UNIT = 15.3 / (1e6 / 65536)  # of the counter of energy, in AMD's library


def _nothing(theirs: Value, ours: Value) -> bool:
    return ours is None


def _zero_for_unknown(theirs: Value, ours: Value) -> bool:
    return theirs == 0 and ours is None


def _rounded(theirs: Value, ours: Value, *, per_joule: float) -> bool:
    if not isinstance(theirs, int | float) or not isinstance(ours, int | float) or not ours:
        return False
    return abs(theirs / per_joule / ours / _ROUNDED_UNIT - 1) < 1e-4


FURIOSA = (
    Difference(
        program="furiosa-smi*",
        field="core.*cycles",
        right="accelscope",
        reason="the library reads no counters of a core that is not occupied, and reports 0",
        holds=lambda theirs, ours: theirs == 0 and ours is None,
    ),
    Difference(
        program="furiosa-smi-py",
        versions="2026.1.*",
        field="memory.used",
        right="accelscope",
        reason="this version asks the device file npu*dmar, which has no driver here, and reports 0",
        holds=lambda theirs, ours: theirs == 0,
    ),
)

NVIDIA = (
    Difference(
        program="nvitop",
        field="mig.*.memory.*",
        right="both",
        reason="compute instances of one GPU instance share its memory, which the snapshot has once",
        holds=lambda theirs, ours: ours is None,
    ),
    Difference(
        program="gpustat",
        field="name",
        right="both",
        reason="the state of a lost GPU is in its name; the snapshot has a health",
        holds=lambda theirs, ours: theirs == "((GPU is lost))",
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
        holds=lambda theirs, ours: _rounded(theirs, ours, per_joule=1e6),
    ),
    Difference(
        program="amd-smi",
        field="metric.energy.*",
        right="accelscope",
        reason=_UNIT_REASON,
        holds=lambda theirs, ours: _rounded(theirs, ours, per_joule=1),
    ),
    *(
        Difference(
            program=program,
            nodes=nodes,
            field=field,
            right="accelscope",
            reason=_EMPTY_ENERGY,
            holds=_nothing,
        )
        for program, field in (("rocm-smi", "Accumulated Energy (uJ)"), ("amd-smi", "metric.energy.*"))
        for nodes in ("amd-radeon", "amd-mi250")
    ),
    *(
        Difference(
            program=program, nodes="amd-mi250", field=field, right="both", reason=_OTHER_DIE, holds=_nothing
        )
        for program, field in (
            ("rocm-smi", "* Graphics Package Power (W)"),
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
            holds=_nothing,
        )
        for program, field in (
            ("rocm-smi", "*VRAM*"),
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
        holds=_zero_for_unknown,
    ),
    Difference(
        program="amd-smi",
        field="static.numa.node",
        right="accelscope",
        reason="the kernel has -1 for a machine with one NUMA node",
        holds=_zero_for_unknown,
    ),
    Difference(
        program="rocm-smi",
        versions="6.1.2*",
        field="GFX Version",
        right="accelscope",
        reason="this version prints the parts of the number with a digit too many",
        holds=lambda theirs, ours: (theirs, ours) in _GFX_NAMES,
    ),
    Difference(
        program="rocm-smi",
        nodes="amd-radeon",
        field="Card Series",
        right="accelscope",
        reason="without a product name the vendor's number is printed",
        holds=lambda theirs, ours: theirs == "0x1002" and ours is None,
    ),
    Difference(
        program="rocm-smi",
        nodes="amd-radeon",
        field="Unique ID",
        right="accelscope",
        reason="0 stands for a GPU without an id",
        holds=lambda theirs, ours: theirs == "0x0" and ours is None,
    ),
    Difference(
        program="*-smi",
        nodes="amd-*, lost",
        field="*",
        right="both",
        reason="the files of a lost GPU keep their last values; the snapshot has its identity only",
        holds=_nothing,
    ),
)

DIFFERENCES: tuple[Difference, ...] = (*FURIOSA, *NVIDIA, *AMD)
