"""A node's record as rows: made anew when a reading comes, only marked when time passes."""

from collections.abc import Callable

from accelscope.fleet.report import NodeReport, SourceKind
from accelscope.fleet.store.happenings import Happenings
from accelscope.fleet.store.node_record import PRECEDENCE, NodeRecord, Share
from accelscope.fleet.store.node_rows import (
    FRESH,
    INCOMPATIBLE,
    STALE,
    UNREAD,
    NodeRows,
    Part,
    Place,
    node_row,
    rows_of,
)
from accelscope.fleet.store.node_tables import NodeTables
from accelscope.fleet.store.unusual import Unusual

# In units of what it takes to mark a node, some tens of microseconds.
WORK_OF_MARKING = 1
WORK_OF_WRITING = 40

NO_SOURCE = "no source reported it"
_NOTHING_NEW = "no newer reading came"


class NodeWriter:
    """`touch` is told which node's answers changed. `quiet`, where it is an argument: the node's cluster is
    out of reach, which was said and need not be said of each node."""

    def __init__(
        self,
        tables: NodeTables,
        unusual: Unusual,
        happenings: Happenings,
        touch: Callable[[str, str], None],
    ) -> None:
        self._tables = tables
        self._unusual = unusual
        self._happenings = happenings
        self._touch = touch

    def refresh(self, record: NodeRecord, now: float, *, simulated: bool, quiet: bool) -> int:
        """After anything but a new reading. Gives back how much work it was."""
        shares = record.shared_out(now) if record.readings else ()
        if record.state is not None and (shares == record.shares or _only_aged(record.shares, shares)):
            self._mark(record, shares, now, quiet=quiet)
            return WORK_OF_MARKING
        self.write(record, shares, None, now, simulated=simulated, quiet=quiet)
        return WORK_OF_WRITING if shares else WORK_OF_MARKING

    def write(
        self,
        record: NodeRecord,
        shares: tuple[Share, ...],
        report: NodeReport | None,
        now: float,
        *,
        simulated: bool,
        quiet: bool,
    ) -> None:
        """`report`: the reading that has just come, which need not be unpacked."""
        place = Place(cluster=record.cluster, node=record.node, simulated=simulated)
        rows = rows_of(place, parts_of(record, shares, report))
        self._unusual.mark(rows)
        same_sources = [share.source for share in shares] == [share.source for share in record.shares]
        before = self._tables.healths(record.number) if same_sources else None
        self._tables.replace(record.number, rows)
        if record.state is not None and before not in (None, {row.id: row.health for row in rows.devices}):
            self._happenings.devices(record, before or {}, rows.devices, now)
        record.shares = shares
        self._write_node(record, place, rows, now, quiet)

    def _write_node(self, record: NodeRecord, place: Place, rows: NodeRows, now: float, quiet: bool) -> None:
        state, reason = _state(record)
        first = record.readings[record.shares[0].source] if record.shares else None
        agent = record.readings.get(SourceKind.AGENTS)
        row = node_row(
            place,
            rows,
            state=state,
            reason=reason,
            sources=sorted((share.source for share in record.shares), key=PRECEDENCE.__getitem__),
            taken_at=None if first is None else first.taken_at,
            agent_version=None if agent is None else agent.agent_version,
        )
        self._tables.nodes.replace(record.number, [row])
        self._changed(record, state, reason, now, quiet)

    def _mark(self, record: NodeRecord, shares: tuple[Share, ...], now: float, *, quiet: bool) -> None:
        """The rows are right but for their state."""
        if shares != record.shares:
            self._tables.mark_stale(record.number)
            record.shares = shares
        state, reason = _state(record)
        if self._tables.mark_node(record.number, state, reason):
            self._changed(record, state, reason, now, quiet)

    def _changed(self, record: NodeRecord, state: str, reason: str | None, now: float, quiet: bool) -> None:
        if state != record.state:
            self._happenings.node_state(record, state, reason, now, quiet)
            record.state = state
        self._touch(record.cluster, record.node)


def parts_of(record: NodeRecord, shares: tuple[Share, ...], report: NodeReport | None = None) -> list[Part]:
    parts = []
    for share in shares:
        reading = record.readings[share.source]
        given = None if report is None or report.source is not share.source else report.snapshot
        parts.append(
            Part(
                source=share.source.value,
                state=FRESH if share.fresh else STALE,
                taken_at=reading.taken_at,
                snapshot=reading.snapshot() if given is None else given,
                vendors=share.vendors,
            )
        )
    return parts


def _state(record: NodeRecord) -> tuple[str, str | None]:
    failure = record.failure()
    text = None if failure is None else failure.text
    if record.shares:
        if not record.shares[0].fresh:
            return STALE, text or _NOTHING_NEW
        remarks = (record.readings[share.source].remark for share in record.shares)
        return FRESH, "; ".join(dict.fromkeys(filter(None, (text, *remarks)))) or None
    if failure is None:
        return UNREAD, NO_SOURCE
    return INCOMPATIBLE if failure.incompatible else UNREAD, text


def _only_aged(before: tuple[Share, ...], after: tuple[Share, ...]) -> bool:
    """One source alone, whose reading went stale: the rows are the same."""
    return len(before) == len(after) == 1 and before[0].source == after[0].source and not after[0].fresh
