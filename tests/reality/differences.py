"""Every known difference between what a program reports and what the agent reports about the same node.

`right` is who is right. `holds` limits the entry to the difference that it explains: any other value of the
same field still fails.
"""

from tests.reality.comparison import Difference

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
        reason="this version gets used memory from the device file npu*dmar, which has no driver here, and reports 0",
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

DIFFERENCES: tuple[Difference, ...] = (*FURIOSA, *NVIDIA)
