"""What can be wrong with a simulated fleet: a device, a workload, an agent, a node, an API server."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from accelscope.config.document import read_each
from accelscope.config.values import Choice, Decimal, Text, shown
from accelscope.simulate.description import read_fault, read_yaml
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.folder import write_text
from accelscope.simulate.section import Description, DescriptionError
from accelscope.simulate.spec import NodeSpec
from accelscope.vendors import declarations

DEVICE_FAULTS = tuple(kind for kind in FaultKind if kind.of_device)
FILE = "faults.yaml"  # of a fleet's folder
_DEFAULT_SECONDS = 5.0
_LONGEST_IDLE_SECONDS = 86_400  # before the fleet was started
_DEFAULT_SCHEMA = "2.0"


class FleetFault(StrEnum):
    """Beside the faults of devices, which are those of a simulated node."""

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
    FleetFault.IDLE: "processes of one name (--process) hold what they hold and do nothing",
    FleetFault.NODE_GONE: "the node and its pods are deleted",
    FleetFault.AGENT_DOWN: "the proxy does not reach the agent",
    FleetFault.AGENT_HANG: "the agent takes the request and does not answer",
    FleetFault.AGENT_SLOW: "the agent answers after --seconds",
    FleetFault.AGENT_GARBAGE: "the agent's answer is no snapshot",
    FleetFault.AGENT_SCHEMA: "the agent writes another schema version (--schema)",
    FleetFault.READER_HANG: "calls into the drivers of the node do not come back",
    FleetFault.READER_GARBAGE: "a driver answers with something that is no value, at every reading",
    FleetFault.SOURCE_DOWN: "the agent does not reach the API server and works with the pods it knew",
    FleetFault.SINK_DOWN: "the agent may not write the annotation of Ascend chips",
    FleetFault.API_DOWN: "the API server ends every connection",
    FleetFault.API_HANG: "the API server takes requests and does not answer",
    FleetFault.API_SLOW: "the API server answers after --seconds",
    FleetFault.API_GARBAGE: "the API server's answers mean nothing",
    FleetFault.API_FLOOD: "the API server's answers do not end",
    FleetFault.API_UNAUTHORIZED: "the API server does not take the token any more: 401",
    FleetFault.API_FORBIDDEN: "the API server says that the token may not: 403",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One fault of a fleet. `begin` and `until` are seconds since the fleet was started."""

    kind: str  # of FleetFault or FaultKind
    cluster: str
    node: str | None = None  # None: of the cluster's API server
    vendor: str | None = None
    device: int | None = None
    code: int | None = None
    process: str | None = None
    seconds: float | None = None
    schema: str | None = None
    begin: float = 0.0
    until: float | None = None

    def active(self, at: float) -> bool:
        return self.begin <= at and (self.until is None or at < self.until)

    def same_as(self, other: "Trouble") -> bool:
        return replace(self, begin=0.0, until=None) == replace(other, begin=0.0, until=None)

    def of_device(self, delay: float) -> Fault | None:
        """As the node model has it, in a time that is ahead by so many seconds; None: it is no device's."""
        if self.kind not in DEVICE_FAULTS:
            return None
        return Fault(
            kind=FaultKind(self.kind),
            vendor=self.vendor,
            device=self.device,
            code=self.code,
            begin=self.begin + delay,
            until=None if self.until is None else self.until + delay,
        )


class TroubleLog:
    """All that was wrong up to now: counters that a fault drove must not fall back when it ends."""

    def __init__(self, described: Iterable[Trouble] = ()) -> None:
        self._described = tuple(described)
        self._set: list[Trouble] = []

    def observe(self, current: Iterable[Trouble], at: float) -> None:
        """Those that are set now: new ones begin, those that are gone end."""
        current = tuple(current)
        self._set = [
            replace(trouble, until=at)
            if trouble.until is None and not any(map(trouble.same_as, current))
            else trouble
            for trouble in self._set
        ]
        for trouble in current:
            if not any(known.until is None and known.same_as(trouble) for known in self._set):
                self._set.append(replace(trouble, begin=at, until=None))

    def of_cluster(self, cluster: str) -> tuple[Trouble, ...]:
        """Of its API server."""
        return tuple(t for t in self._all() if t.cluster == cluster and t.node is None)

    def of_nodes(self) -> dict[tuple[str, str], tuple[Trouble, ...]]:
        found: dict[tuple[str, str], tuple[Trouble, ...]] = {}
        for trouble in self._all():
            if trouble.node is not None:
                place = trouble.cluster, trouble.node
                found[place] = (*found.get(place, ()), trouble)
        return found

    def _all(self) -> tuple[Trouble, ...]:
        return (*self._described, *self._set)


Nodes = Mapping[str, Mapping[str, NodeSpec]]  # by cluster and name


def read_trouble(section: Description, nodes: Nodes) -> Trouble:
    """With the keys of a description. Raises DescriptionError."""
    kind = str(section.require("kind", Choice(*sorted({*FleetFault, *DEVICE_FAULTS}))))
    cluster = section.require("cluster", Choice(*nodes))
    name = section.raw("node")
    if kind in tuple(FleetFault) and FleetFault(kind).of_cluster:
        if name is not None:
            raise section.error("node", f"{kind} is of the cluster's API server, not of a node")
        return _timed(section, Trouble(kind=kind, cluster=cluster, seconds=_seconds(section, kind)))
    spec = nodes[cluster].get(str(name))
    if spec is None:
        got = "" if name is None else f"; got {shown(name)}"
        raise section.error("node", f"{kind} needs a node of {cluster}{got}")
    if kind in DEVICE_FAULTS:
        given = section.part(("vendor", "device", "code", "from", "until"), kind=kind)
        fault = read_fault(given, spec.vendors)
        times = {"begin": fault.begin, "until": fault.until}
        told = {"vendor": fault.vendor, "device": fault.device, "code": fault.code}
        return Trouble(kind=kind, cluster=cluster, node=str(name), **told, **times)  # type: ignore[arg-type]
    if kind == FleetFault.SINK_DOWN and not any(declarations()[v].annotation for v in spec.vendors):
        raise section.error("node", f"{kind} needs a node whose agent writes an annotation, not {name}")
    trouble = Trouble(
        kind=kind,
        cluster=cluster,
        node=str(name),
        process=_process(section, kind, spec),
        seconds=_seconds(section, kind),
        schema=_schema(section, kind),
    )
    return _timed(section, trouble)


def _timed(section: Description, trouble: Trouble) -> Trouble:
    # Who idles may have done so long before anybody looked.
    least = -_LONGEST_IDLE_SECONDS if trouble.kind == FleetFault.IDLE else 0
    begin = section.take("from", Decimal(least), 0)
    return replace(trouble, begin=begin, until=section.take("until", Decimal(0)))


def _seconds(section: Description, kind: str) -> float | None:
    if kind in (FleetFault.AGENT_SLOW, FleetFault.API_SLOW):
        return section.take("seconds", Decimal(0, 3600), _DEFAULT_SECONDS)
    return None


def _schema(section: Description, kind: str) -> str | None:
    if kind != FleetFault.AGENT_SCHEMA:
        return None
    return section.take("schema", Text("a version such as '1.0'", r"\d+\.\d+"), _DEFAULT_SCHEMA)


def _process(section: Description, kind: str, spec: NodeSpec) -> str | None:
    if kind != FleetFault.IDLE:
        return None
    return section.require("process", Choice(*sorted({process.name for process in spec.processes})))


def trouble_document(trouble: Trouble, *, times: bool = False) -> dict[str, Any]:
    """As YAML or JSON has it; what is unset is left out."""
    told = {field.name: getattr(trouble, field.name) for field in fields(trouble)}
    begin, until = told.pop("begin"), told.pop("until")
    if times:
        told |= {"from": begin or None, "until": until}
    return {key: value for key, value in told.items() if value is not None}


def read_faults(folder: Path, nodes: Nodes) -> tuple[Trouble, ...]:
    """Those that are set just now, from the folder of a fleet. Raises DescriptionError."""
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise DescriptionError(str(error.strerror), file=FILE) from None
    except UnicodeDecodeError:
        raise DescriptionError("not a text in UTF-8", file=FILE) from None
    try:
        document = read_yaml(text)
    except DescriptionError as error:
        raise error.in_file(FILE) from None
    root = Description({FILE: document or []})
    return read_each(root.sections(FILE), lambda section: read_trouble(section, nodes))


def write_faults(folder: Path, troubles: Iterable[Trouble]) -> None:
    lines = "".join(f"- {json.dumps(trouble_document(trouble))}\n" for trouble in troubles)
    write_text(folder / FILE, lines or "[]\n")
