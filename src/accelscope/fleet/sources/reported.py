"""The door for readings that were put together here: from what a tool printed, from annotations, from series
of a store, or from several agents."""

from accelscope.fleet.report import NodeFailure, NodeReport, SourceKind
from accelscope.fleet.sources.snapshot_document import BadDocument, TooLarge, checked
from accelscope.kube.errors import Reason
from accelscope.model import Snapshot


def reported(
    node: str, source: SourceKind, taken_at: float, snapshot: Snapshot, *, remark: str | None = None
) -> NodeReport | NodeFailure:
    """Without numbers that cannot be; a failure, where there is more of it than a node can have. `remark`:
    what was left out before."""
    try:
        found = checked(snapshot)
    except TooLarge as error:
        return NodeFailure(node=node, source=source, reason=Reason.TOO_LARGE, text=str(error))
    except BadDocument as error:
        return NodeFailure(node=node, source=source, reason=Reason.BAD_ANSWER, text=str(error))
    return NodeReport(
        node=node,
        source=source,
        taken_at=taken_at,
        snapshot=found.snapshot,
        remark="; ".join(filter(None, (remark, found.remark))) or None,
    )
