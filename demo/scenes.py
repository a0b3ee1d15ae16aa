"""What happens in every round of the demo."""

import math
from dataclasses import dataclass

from demo.clusters import LAB, LAB_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`begin` and `until` are seconds of a round. `group` None: it is the cluster's API server. An end that
    is worth no words has none."""

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
    # So long it has gone on when the demo begins: part of what the fleet is, not of what happens to it.
    before_seconds: float = 0.0
    again: bool = True  # in every round; else it begins in the first and lasts


SETTINGS_CHANGE = "settings_change"  # of the real agent: no fault

SCENES: tuple[Scene, ...] = (
    # There when one comes.
    Scene(
        begin=0, until=math.inf, cluster="berlin", group="h100", first=-1, device=5, again=False,
        kind="lost", begins="{device} fell off the bus", ends="",
    ),
    Scene(
        begin=0, until=math.inf, cluster="oslo", group="mi250", again=False,
        kind="agent_schema", schema="1.0", begins="has an agent of an older version", ends="",
    ),
    Scene(
        begin=0, until=math.inf, cluster="berlin", group="a100", first=-1, again=False,
        kind="idle", process="tritonserver", before_seconds=100 * 60,
        begins="tritonserver holds its share of a GPU and has done nothing for 100 minutes", ends="",
    ),
    # In every round.
    Scene(
        begin=8, until=150, cluster="berlin", group="h100", first=2, device=2,
        kind="hot", begins="{device} overheats and slows down", ends="{device} has cooled down",
    ),
    Scene(
        begin=20, until=330, cluster="berlin", group="a100", process="vllm",
        kind="idle", begins="vllm stops working and keeps its memory", ends="vllm works again",
    ),
    Scene(
        begin=32, until=250, cluster="berlin", group="h100", first=5, device=6,
        kind="ecc_storm", begins="{device}: memory errors pile up", ends="{device}: no more memory errors",
    ),
    *(
        Scene(
            begin=44 + 4 * number, until=300, cluster="berlin", group="h100", first=7, device=1, code=code,
            kind="xid", begins=f"{{device}}: XID {code}", ends="",
        )
        for number, code in enumerate((74, 94, 48, 63, 119))
    ),
    Scene(
        begin=56, until=145, cluster="oslo", group="mi300", first=3,
        kind="node_gone", begins="vanishes", ends="is back",
    ),
    Scene(
        begin=70, until=135, cluster="seoul",
        kind="api_down", begins="the API server ends every connection", ends="the API server answers again",
    ),
    Scene(
        begin=90, until=210, cluster=LAB_CLUSTER, group=LAB, device=0,
        kind="hot", begins="{device} overheats (this one has the real agent)",
        ends="{device} has cooled down",
    ),
    Scene(
        begin=104, until=300, cluster="oslo", group="mi300", first=1, device=4,
        kind="hot", begins="{device} overheats", ends="{device} has cooled down",
    ),
    Scene(
        begin=116, until=220, cluster="berlin", group="mig",
        kind="agent_down", begins="its agent does not answer", ends="its agent answers again",
    ),
    Scene(
        begin=150, until=300, cluster="seoul", group="ascend", first=2, device=3,
        kind="ecc_storm", begins="{device}: memory errors pile up", ends="{device}: no more memory errors",
    ),
    Scene(
        begin=162, until=290, cluster="seoul", group="rngd", first=1, device=1,
        kind="hang", begins="{device}: driver calls hang", ends="{device} answers again",
    ),
    Scene(
        begin=174, until=300, cluster="seoul", group="ascend", first=5,
        kind="sink_down", begins="its agent may not write the annotation", ends="the annotation is written",
    ),
    Scene(
        begin=188, until=320, cluster="oslo", group="studio",
        kind="reader_hang", begins="no call into the driver comes back", ends="the driver answers again",
    ),
    Scene(
        begin=200, until=310, cluster="oslo", group="warboy",
        kind="source_down", begins="its agent does not reach the API server",
        ends="its agent knows the pods again",
    ),
    Scene(
        begin=212, until=300, cluster="seoul", group="a100", first=1,
        kind="reader_garbage", begins="a driver answers with nonsense", ends="the driver makes sense again",
    ),
    Scene(
        begin=224, until=310, cluster="seoul", group="a100", first=2, device=0,
        kind="vanished", begins="{device} is not shown any more", ends="{device} is shown again",
    ),
    Scene(
        begin=236, until=330, cluster="seoul", group="rngd", first=3, schema="2.0",
        kind="agent_schema", begins="its agent is too new for this fleet", ends="its agent can be read again",
    ),
    Scene(
        begin=250, until=310, cluster="oslo", seconds=4.0,
        kind="api_slow", begins="the API server takes 4 s for an answer", ends="the API server is fast again",
    ),
    Scene(
        begin=262, until=330, cluster=LAB_CLUSTER, group=LAB,
        kind=SETTINGS_CHANGE, begins="its agent is told to read every second",
        ends="its agent is told to read every two seconds",
    ),
)  # fmt: skip
