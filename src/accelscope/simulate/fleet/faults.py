"""Faults of a simulated fleet: of a device, a workload, an agent, a node or an API server."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from accelscope.config.document import read_each
from accelscope.config.values import Choice, Decimal, Text, shown
from accelscope.simulate.description import read_fault, read_yaml
from accelscope.simulate.faults import RESTARTS, Fault, FaultKind, TimedFault, TimedFaultLog
from accelscope.simulate.folder import write_text
from accelscope.simulate.spec import Description, DescriptionError, NodeSpec
from accelscope.vendors import declarations

# Faults of a simulated node that a fleet has too: those of devices, and what ends them. Throttling for one of
# a vendor's causes is for readers of single nodes.
NODE_FAULTS = tuple(
    kind for kind in FaultKind if (kind.of_device or kind in RESTARTS) and kind is not FaultKind.THROTTLED
)
FILE = "faults.yaml"  # of a fleet's folder
_DEFAULT_SECONDS = 5.0
_LONGEST_IDLE_SECONDS = 86_400  # before the fleet was started
_DEFAULT_SCHEMA = "2.0"


class FleetFaultKind(StrEnum):
    """In addition to those of a simulated node (`NODE_FAULTS`)."""

    IDLE = "idle"
    NODE_GONE = "node_gone"
    AGENT_DOWN = "agent_down"
    AGENT_HANG = "agent_hang"
    AGENT_SLOW = "agent_slow"
    AGENT_GARBAGE = "agent_garbage"
    AGENT_SCHEMA = "agent_schema"
    READER_HANG = "reader_hang"
    READER_GARBAGE = "reader_garbage"
    SOURCE_DOWN = "source_down"
    SINK_DOWN = "sink_down"
    API_DOWN = "api_down"
    API_HANG = "api_hang"
    API_SLOW = "api_slow"
    API_GARBAGE = "api_garbage"
    API_FLOOD = "api_flood"
    API_UNAUTHORIZED = "api_unauthorized"
    API_FORBIDDEN = "api_forbidden"

    @property
    def of_cluster(self) -> bool:
        return self.startswith("api_")

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    FleetFaultKind.IDLE: "processes of one name (--process) keep their memory and are idle",
    FleetFaultKind.NODE_GONE: "the node and its pods are deleted",
    FleetFaultKind.AGENT_DOWN: "the proxy does not reach the agent",
    FleetFaultKind.AGENT_HANG: "the agent accepts requests and does not answer",
    FleetFaultKind.AGENT_SLOW: "the agent answers after --seconds",
    FleetFaultKind.AGENT_GARBAGE: "the agent's answer is not a snapshot",
    FleetFaultKind.AGENT_SCHEMA: "the agent writes another schema version (--schema)",
    FleetFaultKind.READER_HANG: "calls into the drivers of the node do not return",
    FleetFaultKind.READER_GARBAGE: "a driver returns an unreadable value at every reading",
    FleetFaultKind.SOURCE_DOWN: "the agent does not reach the API server and uses the last known pods",
    FleetFaultKind.SINK_DOWN: "the agent is not allowed to write the annotation of Ascend chips",
    FleetFaultKind.API_DOWN: "the API server closes every connection",
    FleetFaultKind.API_HANG: "the API server accepts requests and does not answer",
    FleetFaultKind.API_SLOW: "the API server answers after --seconds",
    FleetFaultKind.API_GARBAGE: "the API server answers with garbage",
    FleetFaultKind.API_FLOOD: "the API server's answers do not end",
    FleetFaultKind.API_UNAUTHORIZED: "the API server rejects the token: 401",
    FleetFaultKind.API_FORBIDDEN: "the API server denies access: 403",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFault(TimedFault):
    """Times are seconds since the fleet started."""

    kind: str  # a FleetFaultKind or FaultKind
    cluster: str
    node: str | None = None  # None: a fault of the cluster's API server
    vendor: str | None = None
    device: int | None = None
    code: int | None = None
    process: str | None = None
    seconds: float | None = None
    schema: str | None = None

    def as_node_fault(self, delay: float) -> Fault | None:
        """The fault as one of a simulated node, with `delay` added to its times; None: a simulated
        node has no such fault."""
        if self.kind not in NODE_FAULTS:
            return None
        return Fault(
            kind=FaultKind(self.kind),
            vendor=self.vendor,
            device=self.device,
            code=self.code,
            begin=self.begin + delay,
            until=None if self.until is None else self.until + delay,
        )


class FleetFaultLog(TimedFaultLog[FleetFault]):
    """The faults of a fleet."""

    def of_cluster(self, cluster: str) -> tuple[FleetFault, ...]:
        """Faults of its API server."""
        return tuple(fault for fault in self.faults if fault.cluster == cluster and fault.node is None)

    def of_nodes(self) -> dict[tuple[str, str], tuple[FleetFault, ...]]:
        found: dict[tuple[str, str], tuple[FleetFault, ...]] = {}
        for fault in self.faults:
            if fault.node is not None:
                place = fault.cluster, fault.node
                found[place] = (*found.get(place, ()), fault)
        return found


def active_fault(faults: Iterable[FleetFault], kind: FleetFaultKind, at: float) -> FleetFault | None:
    return next((fault for fault in faults if fault.kind == kind and fault.active(at)), None)


Nodes = Mapping[str, Mapping[str, NodeSpec]]  # by cluster and name


def read_fleet_fault(section: Description, nodes: Nodes) -> FleetFault:
    """Raises DescriptionError."""
    kind = str(section.require("kind", Choice(*sorted({*FleetFaultKind, *NODE_FAULTS}))))
    cluster = section.require("cluster", Choice(*nodes))
    name = section.raw("node")
    if kind in tuple(FleetFaultKind) and FleetFaultKind(kind).of_cluster:
        if name is not None:
            raise section.error("node", f"{kind} is a fault of the cluster's API server, not of a node")
        return _timed(section, FleetFault(kind=kind, cluster=cluster, seconds=_seconds(section, kind)))
    spec = nodes[cluster].get(str(name))
    if spec is None:
        got = "" if name is None else f"; got {shown(name)}"
        raise section.error("node", f"{kind} needs a node of {cluster}{got}")
    if kind in NODE_FAULTS:
        part = section.part(("vendor", "device", "code", "from", "until"), kind=kind)
        of_device = read_fault(part, spec.vendors)
        return FleetFault(
            kind=kind,
            cluster=cluster,
            node=str(name),
            vendor=of_device.vendor,
            device=of_device.device,
            code=of_device.code,
            begin=of_device.begin,
            until=of_device.until,
        )
    if kind == FleetFaultKind.SINK_DOWN and not any(declarations()[v].annotation for v in spec.vendors):
        raise section.error("node", f"{kind} needs a node whose agent writes an annotation, not {name}")
    fault = FleetFault(
        kind=kind,
        cluster=cluster,
        node=str(name),
        process=_process(section, kind, spec),
        seconds=_seconds(section, kind),
        schema=_schema(section, kind),
    )
    return _timed(section, fault)


def _timed(section: Description, fault: FleetFault) -> FleetFault:
    # A process may be idle since long before the fleet started.
    earliest = -_LONGEST_IDLE_SECONDS if fault.kind == FleetFaultKind.IDLE else 0
    begin = section.take("from", Decimal(earliest), 0)
    return replace(fault, begin=begin, until=section.take("until", Decimal(0)))


def _seconds(section: Description, kind: str) -> float | None:
    if kind in (FleetFaultKind.AGENT_SLOW, FleetFaultKind.API_SLOW):
        return section.take("seconds", Decimal(0, 3600), _DEFAULT_SECONDS)
    return None


def _schema(section: Description, kind: str) -> str | None:
    if kind != FleetFaultKind.AGENT_SCHEMA:
        return None
    return section.take("schema", Text("a version such as '1.0'", r"\d+\.\d+"), _DEFAULT_SCHEMA)


def _process(section: Description, kind: str, spec: NodeSpec) -> str | None:
    if kind != FleetFaultKind.IDLE:
        return None
    return section.require("process", Choice(*sorted({process.name for process in spec.processes})))


def fleet_fault_document(fault: FleetFault, *, times: bool = False) -> dict[str, Any]:
    """The fault as it is written in YAML or JSON, without unset fields."""
    document = {field.name: getattr(fault, field.name) for field in fields(fault)}
    begin, until = document.pop("begin"), document.pop("until")
    if times:
        document |= {"from": begin or None, "until": until}
    return {key: value for key, value in document.items() if value is not None}


def read_faults(folder: Path, nodes: Nodes) -> tuple[FleetFault, ...]:
    """The faults that are set now, from the folder of a fleet. Raises DescriptionError."""
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise DescriptionError(str(error.strerror), file=FILE) from None
    except UnicodeDecodeError:
        raise DescriptionError("not UTF-8 text", file=FILE) from None
    try:
        document = read_yaml(text)
    except DescriptionError as error:
        raise error.in_file(FILE) from None
    root = Description({FILE: document or []})
    return read_each(root.sections(FILE), lambda section: read_fleet_fault(section, nodes))


def write_faults(folder: Path, faults: Iterable[FleetFault]) -> None:
    lines = "".join(f"- {json.dumps(fleet_fault_document(fault))}\n" for fault in faults)
    write_text(folder / FILE, lines or "[]\n")
