"""The reference page of `/snapshot` (docs/snapshot.md), generated from the model's dataclasses.

A running agent does not use this module.
"""

import json
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from accelscope.agent.pages import AGE_HEADER, CollectedSnapshot
from accelscope.metrics.exposition import Exposition
from accelscope.model import (
    Absence,
    AbsenceReason,
    AgentState,
    Device,
    Health,
    HealthState,
    Owner,
    OwnerKind,
    PodUsage,
    Process,
    ProcessType,
    ReaderState,
    Snapshot,
    Vendor,
)
from accelscope.model.documentation import documentation, objects
from accelscope.model.wire import SCHEMA_VERSION, snapshot_document
from accelscope.serve.message import Limits

_GPU = "nvidia:GPU-d92a11cc-3c07-4b1e-9d6a-0a1f5f0e7c21"
EXAMPLE = Snapshot(
    node="gpu-node-7",
    taken_at=1767225600.25,
    agent=AgentState(
        version="0.1.0",
        started_at=1767225000.5,
        collections=60,
        collection_seconds=0.125,
        cpu_seconds=1.75,
        threads=9,
    ),
    interval_seconds=10.0,
    labels=(("rack", "7"),),
    readers=(
        ReaderState(
            vendor=Vendor("nvidia"), found=True, up=True, source="nvml", devices_expected=1, devices_seen=1
        ),
    ),
    devices=(
        Device(
            vendor=Vendor("nvidia"),
            id=_GPU,
            index=0,
            health=Health(HealthState.OK),
            read_at=1767225600.125,
            utilization_ratio=0.63,
            memory_used_bytes=8589934592,
            power_watts=462.5,
            absent=(Absence("sensors.memory", AbsenceReason.NOT_SUPPORTED),),
        ),
    ),
    processes=(
        Process(
            pid=4711,
            device=_GPU,
            name="python3",
            type=ProcessType.COMPUTE,
            memory_bytes=8589934592,
            owner=Owner(kind=OwnerKind.POD, namespace="team-a", pod="train-0", container="main"),
        ),
    ),
    pod_usages=(
        PodUsage(
            device=_GPU,
            namespace="team-a",
            pod="train-0",
            container="main",
            processes=1,
            memory_used_bytes=8589934592,
            allocated=1,
            resources=("nvidia.com/gpu",),
        ),
    ),
)

_HEAD = """\
# The snapshot

<!-- Made from src/accelscope/model and src/accelscope/agent/snapshot_reference.py by `make docs`; a test
compares them. -->

`GET /snapshot` of an agent returns the state of the whole node as one JSON document. It contains everything
that [the metrics](metrics.md) are made of, and more: every link, every sensor, and reasons as text. The
[fleet](fleet.md) and [`accelscope top`](top.md) read it. [Concepts](concepts.md) explains the terms.

```sh
curl -s --compressed localhost:9400/snapshot
```

## Versions

`schema_version` is the first field of the document. It is `major.minor`, now `{version}`, and independent of
the version of AccelScope (`agent.version`). The minor version increases with a new field or a new value of an
enumeration: ignore those that you do not know. Fleet and top omit devices of an unknown `vendor` and report
that they did. The major version increases when a field is removed or changes its meaning: reject a major
version that you do not know.

## Request and response

The methods are GET and HEAD. There are no parameters and no paging: the document is always complete. It
changes with each collection, every `interval_seconds`. A request does not call any driver.

| header | of | meaning |
|---|---|---|
| `ETag` | the response | such as `{tag}`; changes with every collection |
| `If-None-Match` | the request | the last `ETag`; the response is 304 without a body if nothing changed |
| `{age}` | the response, also 304 | seconds since the collection, independent of both clocks |
| `Accept-Encoding` | the request | `gzip` makes the body several times smaller |
| `Authorization` | the request | `Bearer` and a token, if [required](security.md#who-may-read-the-page) |
| `X-AccelScope-Token` | the request | the token alone; the API server's proxy removes `Authorization` |
| `X-AccelScope-Structure` | both | for the fleet: see [Updates](#updates) |

### Updates

Most of a snapshot is the same after each collection: names, ids, versions. The fleet sends the name of the
structure of its last snapshot in `X-AccelScope-Structure` (`none` at first), and the response has the
current name in the same header. If both are equal, the body is not the snapshot but
`application/vnd.accelscope.update+json`: the numbers and the health of devices, containers and processes in
a fixed order, a twentieth of the uncompressed size. Its form may change with any version of the agent;
other clients leave out the header.

An agent keeps responding when drivers fail: devices that cannot be read are `stale`, and the age of the
document grows if collections do not finish.

The body of every other status is one line of plain text with the reason:

| status | when |
|---|---|
| 400, 408, 411, 413, 414, 417, 431, 505 | the request is malformed, slow or too large |
| 401 | the token is missing or not accepted |
| 403 | a client certificate is required, or the token's user is not allowed to read this path |
| 404, 405 | unknown path or method |
| 429 | too many unknown tokens from this address; `Retry-After` is the time to wait |
| 500 | the document cannot be rendered; see the log |
| 503 | the first collection is not finished, tokens cannot be reviewed, or there are too many connections |

An agent serves {connections} connections at a time. A request line may have {line} KiB, and {head} KiB with
all headers. The client has {head_seconds:g} s to send them and {response_seconds:g} s to read the response.
An idle connection is closed after {idle_seconds:g} s.

## Example

Shortened: a data centre GPU has about fifty fields.

```json
{example}
```

## Objects

Units are base units and part of the name. A *ratio* of 1 means 100 %; a *time* is in seconds since the epoch.
Totals and counts only increase, until their source restarts.

Absent values are omitted: there is no null and no empty list. 0 and false are values and are included. The
column *absent* describes when a field is omitted:

- never: the field is always present;
- none: the list is empty;
- unknown: the driver or the source does not provide it. For a device, `absent` contains the reason if known.
"""

_UNITS = {
    "per_second": "bytes per second",
    "bytes": "bytes",
    "bytes_total": "bytes",
    "celsius": "degrees Celsius",
    "hertz": "hertz",
    "joules": "joules",
    "volts": "volts",
    "amperes": "amperes",
    "watts": "watts",
    "seconds": "seconds",
    "compute_share_ratio": "ratio",
    "device_share_ratio": "ratio",
    "share_ratio": "shares",
    "ratio": "ratio",
    "rpm": "revolutions per minute",
    "at": "time",
    "last_success": "time",
    "last_seen": "time",
    "since": "time",
}
_TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
}


def reference() -> str:
    return "".join([_head(), *(_section(kind) for kind in objects(Snapshot))])


def _head() -> str:
    limits = Limits()
    collection = CollectedSnapshot(EXAMPLE, Exposition().render(EXAMPLE))
    return _HEAD.format(
        version=SCHEMA_VERSION,
        age=AGE_HEADER,
        tag=collection.tag,
        connections=limits.connections,
        line=limits.line_bytes // 1024,
        head=limits.head_bytes // 1024,
        head_seconds=limits.head_seconds,
        response_seconds=limits.response_seconds,
        idle_seconds=limits.idle_seconds,
        example=json.dumps(snapshot_document(EXAMPLE), indent=2),
    )


def _section(kind: type[Any]) -> str:
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows(kind))
    return (
        f"\n### {kind.__name__}\n\n{documentation(kind).about}\n\n"
        f"| field | type | unit | absent | meaning |\n|---|---|---|---|---|\n{rows}"
    )


def _rows(kind: type[Any]) -> Iterator[tuple[str, ...]]:
    if kind is Snapshot:
        yield "`schema_version`", "text", "", "never", "Version of this description."
    hints, texts = get_type_hints(kind), documentation(kind)
    for field in fields(kind):
        absent = texts.absent.get(field.name) or _absent(field)
        meaning = texts.fields[field.name]
        yield f"`{field.name}`", _type(hints[field.name]), _unit(field.name), absent, meaning


def _absent(field: Field[Any]) -> str:
    """The writer omits None and empty lists."""
    if field.default is None:
        return "unknown"
    return "none" if field.default == () else "never"


def _type(hint: Any) -> str:
    if get_origin(hint) is UnionType:
        [hint] = [option for option in get_args(hint) if option is not NoneType]
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        return f"list of {_type(first)}" if others == [Ellipsis] else "pairs, name and value"
    if is_dataclass(hint):
        name = hint.__name__  # type: ignore[union-attr]
        return f"[{name}](#{name.lower()})"
    if issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    return _TYPES[hint]


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name == end or name.endswith(f"_{end}")), "")
