"""The faults of each round of the demo, with their messages. Each shows one thing that page, `top` and alerts
then show in the same words."""

import math
from dataclasses import dataclass

from tools.demo.clusters import LAB, LAB_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`begin` and `until` are seconds of a round. `group` None: a fault of the cluster's API server. An empty
    `ends` prints no message."""

    begin: float
    until: float
    cluster: str
    group: str | None = None
    kind: str
    begins: str
    ends: str
    first: int = 0  # which node of the group in the first round; the next one in the next round
    device: int | None = None  # and which device
    code: int | None = None
    process: str | None = None
    seconds: float | None = None
    schema: str | None = None
    # Duration before the demo begins: such a fault is part of the description of the fleet.
    before_seconds: float = 0.0
    again: bool = True  # in every round; else it begins in the first round and does not end


SETTINGS_CHANGE = "settings_change"  # of the real agent; not a fault

SCENES: tuple[Scene, ...] = (
    # From the beginning.
    Scene(
        begin=0, until=math.inf, cluster="berlin", group="h100", first=-1, device=5, again=False,
        kind="lost", begins="{device} fell off the bus: critical until the node reboots", ends="",
    ),
    Scene(
        begin=0, until=math.inf, cluster="oslo", group="mi250", again=False,
        kind="agent_schema", schema="1.0", begins="has an agent of an older version", ends="",
    ),
    Scene(
        begin=0, until=math.inf, cluster="berlin", group="a100", first=-1, again=False,
        kind="idle", process="tritonserver", before_seconds=100 * 60,
        begins="tritonserver has a share of a GPU and has been idle for 100 minutes", ends="",
    ),
    # In every round. An error that lasts: it is over when the device was reset, not after some time.
    Scene(
        begin=8, until=330, cluster="berlin", group="h100", first=2, device=1, code=48,
        kind="xid", begins="{device}: XID 48, critical until it is reset", ends="",
    ),
    Scene(
        begin=210, until=330, cluster="berlin", group="h100", first=2, device=1,
        kind="reset", begins="{device} was reset: XID 48 is over", ends="",
    ),
    # An error of the application: no page, and the device stays ok.
    Scene(
        begin=20, until=330, cluster="berlin", group="h100", first=4, device=3, code=31,
        kind="xid", begins="{device}: XID 31, an error of the application; the device stays ok", ends="",
    ),
    # Waste.
    Scene(
        begin=32, until=330, cluster="berlin", group="a100", process="vllm",
        kind="idle", begins="vllm becomes idle and keeps its memory", ends="vllm is busy again",
    ),
    # A trend: not yet an alert.
    Scene(
        begin=44, until=250, cluster="berlin", group="h100", first=6, device=6,
        kind="ecc_storm", begins="{device}: memory errors keep increasing; it is marked as unusual",
        ends="{device}: no more memory errors",
    ),
    # One cause, one alert: the node, not its eight devices.
    Scene(
        begin=56, until=160, cluster="oslo", group="mi300", first=3,
        kind="node_gone", begins="disappears with all its devices", ends="is back",
    ),
    Scene(
        begin=70, until=135, cluster="seoul",
        kind="api_down", begins="the API server closes every connection", ends="the API server answers again",
    ),
    # On the node with the real agent.
    Scene(
        begin=90, until=210, cluster=LAB_CLUSTER, group=LAB, device=0,
        kind="hot", begins="{device} overheats (this node runs the real agent)",
        ends="{device} has cooled down",
    ),
    Scene(
        begin=104, until=262, cluster="oslo", group="mi300", first=1, device=4,
        kind="ecc_storm", begins="{device}: uncorrectable memory errors, critical until it is reset",
        ends="{device}: no more memory errors",
    ),
    Scene(
        begin=262, until=330, cluster="oslo", group="mi300", first=1, device=4,
        kind="reset", begins="{device} was reset", ends="",
    ),
    Scene(
        begin=116, until=220, cluster="berlin", group="mig",
        kind="agent_down", begins="its agent does not answer", ends="its agent answers again",
    ),
    # A lost device silences the heat of its node.
    Scene(
        begin=150, until=300, cluster="berlin", group="h100", first=-1, device=2, again=False,
        kind="hot", begins="{device} overheats too; the lost device of its node silences this alert",
        ends="{device} has cooled down",
    ),
    Scene(
        begin=174, until=290, cluster="seoul", group="ascend", first=2, device=3,
        kind="ecc_storm", begins="{device}: memory errors keep increasing",
        ends="{device}: no more memory errors",
    ),
    # What the agent reports of itself.
    Scene(
        begin=188, until=310, cluster="seoul", group="rngd", first=1, device=1,
        kind="hang", begins="{device}: driver calls hang", ends="{device} answers again",
    ),
    Scene(
        begin=236, until=330, cluster="oslo", group="studio",
        kind="reader_hang", begins="driver calls do not return", ends="the driver answers again",
    ),
    Scene(
        begin=280, until=340, cluster="seoul", group="rngd", first=3, schema="2.0",
        kind="agent_schema", begins="its agent has an unsupported version",
        ends="its agent has a supported version again",
    ),
    Scene(
        begin=300, until=345, cluster=LAB_CLUSTER, group=LAB,
        kind=SETTINGS_CHANGE, begins="its agent now reads every second",
        ends="its agent now reads every two seconds",
    ),
)  # fmt: skip
