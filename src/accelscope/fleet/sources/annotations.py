"""Nodes as their own objects tell of them: nothing is asked beyond the watch on Nodes."""

import time
from collections.abc import Callable, Iterator

from accelscope.fleet.api_server import Informer
from accelscope.fleet.api_server.objects import DEVICES, NodeObject, vendor_annotations
from accelscope.fleet.report import NodeFailure, NodeUnchanged, SourceKind, SourceOutcome, Take
from accelscope.fleet.sources.annotation_documents import Annotated, BadAnnotation, read_annotation
from accelscope.fleet.sources.discovery import not_found_yet
from accelscope.fleet.sources.pace import LoopShare
from accelscope.fleet.sources.reported import reported
from accelscope.fleet.sources.round import Round
from accelscope.kube.errors import one_line
from accelscope.model import AgentState, Device, ReaderState, Snapshot, Vendor

_SOURCE = "annotation"
# Collectors write at least once a minute, where nothing changes too.
_HEARTBEAT_SECONDS = 60.0
_AT_ONCE = 1
_NEVER = 1 << 62

Texts = tuple[tuple[str, str], ...]  # annotation, what stands there


class AnnotationsSource:
    kind = SourceKind.ANNOTATIONS

    def __init__(
        self,
        nodes: Informer[NodeObject],
        *,
        loop_share: LoopShare,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._nodes = nodes
        self._loop_share = loop_share
        self._clock = clock
        self._read: dict[str, Texts] = {}  # by node, what was last made a report of
        self._sees_devices = False

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: Take) -> SourceOutcome:
        if (unknown := await not_found_yet(self._nodes)) is not None:
            return unknown
        annotated = {
            name: texts for name, node in self._nodes.items.items() if (texts := tuple(_texts(node)))
        }
        self._read = {name: texts for name, texts in self._read.items() if name in annotated}
        this = Round(take, patience=_NEVER)

        async def read(name: str) -> None:
            await self._read_node(name, annotated[name], this)

        await this.over(annotated, read, at_once=_AT_ONCE)
        lost = self._nodes.error
        if lost is not None:
            return this.outcome(len(annotated), reason=lost.reason, text=lost.text)
        return this.outcome(len(annotated))

    async def close(self) -> None:
        """The watch is the cluster's."""

    async def _read_node(self, name: str, texts: Texts, this: Round) -> None:
        if self._read.get(name) == texts:
            this.say(NodeUnchanged(node=name, source=self.kind))
            return
        async with self._loop_share.piece():
            try:
                snapshot, remark = _snapshot(name, texts)
            except BadAnnotation as error:
                text = one_line(str(error))
                this.say(NodeFailure(node=name, source=self.kind, reason="bad_answer", text=text))
                return
            self._sees_devices = self._sees_devices or bool(snapshot.devices)
            taken_at = min(snapshot.taken_at, self._clock())
            saying = reported(name, self.kind, taken_at, snapshot, remark=remark)
            this.say(saying)
            if not isinstance(saying, NodeFailure):
                self._read[name] = texts


def _texts(node: NodeObject) -> Iterator[tuple[str, str]]:
    yield from node.vendor_annotations
    if node.devices_annotation is not None:
        yield DEVICES, node.devices_annotation
    yield from node.devices_by_vendor


def _snapshot(node: str, texts: Texts) -> tuple[Snapshot, str | None]:
    """Also why some of it could not be read. Where both tell of a vendor, ours counts: it has the ids by
    which agents know devices. Raises BadAnnotation where nothing can be read."""
    found: list[Annotated] = []
    troubles: list[str] = []
    for annotation, text in sorted(texts, key=lambda pair: pair[0] in vendor_annotations()):
        try:
            found.append(read_annotation(annotation, text))
        except BadAnnotation as error:
            troubles.append(f"{annotation}: {error}")
    if not found:
        raise BadAnnotation("; ".join(troubles))
    devices: dict[str, Device] = {}
    told: dict[Vendor, Annotated] = {}
    for annotated in found:
        for device in annotated.devices:
            if told.setdefault(device.vendor, annotated) is annotated:
                devices[device.id] = device
    written_at = min(annotated.written_at for annotated in told.values() or found)
    snapshot = Snapshot(
        node=node,
        taken_at=written_at,
        agent=AgentState(version="", started_at=written_at),
        interval_seconds=_HEARTBEAT_SECONDS,
        readers=tuple(ReaderState(vendor=vendor, found=True, up=True, source=_SOURCE) for vendor in told),
        devices=tuple(devices.values()),
    )
    return snapshot, one_line("; ".join(troubles)) or None
