"""Sources of views, their HTTP client for JSON documents, and views of snapshots."""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError, KubeError, Reason
from accelscope.model import (
    Device,
    Owner,
    OwnerKind,
    Partition,
    PodUsage,
    Process,
    ReaderState,
    Snapshot,
    UnattributedReason,
    is_idle,
    usage_shares,
)
from accelscope.top.view.model import (
    DeviceView,
    NodeView,
    Overview,
    PartitionView,
    ProcessUse,
    ProcessView,
    Sums,
    View,
    ViewKind,
)
from accelscope.top.view.text import humanize


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read from a fleet. Other sources return all their nodes."""

    node: tuple[str, str] | None = None  # cluster and node; None: the overview
    cluster: str | None = None  # in the overview, nodes of this cluster only
    sort: str = ""  # order of the nodes, in the syntax of the fleet's API; empty: the default
    text: str = ""  # filter of the nodes
    page: int = 0


class ViewSource(Protocol):
    """`read` is called by one thread and may block until its timeout."""

    kind: ViewKind
    title: str

    def start(self) -> None: ...

    def read(self, query: Query) -> View:
        """The current view. Problems of the other side are in the view, not exceptions."""

    def settle(self) -> None:
        """Before a single `read`: wait for values that need two readings or arrive later."""

    def hurry(self, interval_seconds: float) -> None:
        """Set the interval between calls of `read`."""

    def refresh(self) -> None:
        """The next `read` must not return cached values."""

    def stop(self) -> None: ...


def read_view(source: ViewSource, query: Query) -> View:
    """The view of the source, or a view with the error if it raises."""
    try:
        return source.read(query)
    except Exception as fault:  # noqa: BLE001 - shown to the user
        overview = query.node is None and source.kind is ViewKind.FLEET
        return View(
            kind=source.kind,
            title=source.title,
            at=time.time(),
            overview=Overview(sums=Sums()) if overview else None,
            error=f"unexpected error: {type(fault).__name__}: {fault}",
        )


# --- HTTP client

_NUMBER_LIMIT = 1 << 64  # no counter, size, time or measured value is larger
_DIGITS_LIMIT = 400  # longer integers are not converted
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[0-9]{1,5}(/[!-~]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of the client, and how it verifies servers."""

    token_file: str | None = None
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False


def endpoint_of(url: str, credentials: Credentials) -> Endpoint:
    """HOST:PORT without a scheme means http. Raises EndpointError."""
    if _HOST_AND_PORT.fullmatch(url) is not None and "@" not in url:
        url = f"http://{url}"
    scheme, host = "", ""
    with suppress(ValueError):  # Endpoint raises an error that contains no password
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
    if _is_printable(url):
        if scheme not in ("http", "https") or not host:
            raise EndpointError(f"{url}: not a URL; use http://HOST:PORT or https://HOST:PORT")
        if not _has_valid_port(url):
            raise EndpointError(f"{url}: the port is not a whole number up to 65535")
    secure = scheme == "https"
    return Endpoint(
        url,
        token_file=credentials.token_file,
        ca_file=credentials.ca_file if secure else None,
        client_certificate=credentials.client_certificate if secure else None,
        client_key=credentials.client_key if secure else None,
        skip_tls_verify=credentials.insecure and secure,
        allow_http=True,  # agents in a cluster use http by default
    )


def _has_valid_port(url: str) -> bool:
    try:
        urlsplit(url).port  # noqa: B018 - the property raises
    except ValueError:
        return False
    return True


def _is_printable(url: str) -> bool:
    """Whether the URL can be in an error: it contains no password, no query and no line break."""
    return url.isascii() and url.isprintable() and not set(url) & set("@?# ")


@dataclass(frozen=True, slots=True)
class JsonResponse:
    headers: Mapping[str, str]  # lower-case names
    document: Any = None
    unchanged: bool = False  # the document still has the ETag that was sent


def decode_json(body: bytes) -> Any:
    """The JSON document, without NaN and huge numbers. Raises ValueError."""
    try:
        return json.loads(body, parse_float=_float, parse_int=_int, parse_constant=_constant)
    except _NumberError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("the response is not JSON") from None


class _NumberError(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(f"the response contains an invalid number: {text[:20]}")


def _float(text: str) -> float:
    value = float(text)
    if not -_NUMBER_LIMIT <= value <= _NUMBER_LIMIT:
        raise _NumberError(text)
    return value


def _int(text: str) -> int:
    if len(text) > _DIGITS_LIMIT or not -_NUMBER_LIMIT <= (value := int(text)) <= _NUMBER_LIMIT:
        raise _NumberError(text)
    return value


def _constant(text: str) -> float:
    raise _NumberError(text)


class JsonClient:
    """Gets JSON documents of an agent or a fleet. Not thread-safe."""

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, limit_bytes: int) -> None:
        self._client = Client(endpoint, timeout_seconds=timeout_seconds, user_agent="accelscope-top")
        self._limit = limit_bytes

    def get(self, path: str, tag: str | None = None) -> JsonResponse:
        """The JSON document, unless it still has the ETag `tag`. Raises KubeError."""
        etag = tag if tag is not None and tag.isascii() and tag.isprintable() else None
        response = self._client.request("GET", path, etag=etag, limit_bytes=self._limit)
        if response.status == 304:
            return JsonResponse(response.headers, unchanged=True)
        try:
            return JsonResponse(response.headers, decode_json(response.body))
        except ValueError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._client.endpoint.url}: {error}") from None

    def close(self) -> None:
        self._client.close()


def is_fleet(client: JsonClient) -> bool:
    """Whether the server is a fleet, for an error that says so."""
    return _has_key(client, "/api/v1/version", "snapshot_schema")


def is_agent(client: JsonClient) -> bool:
    return _has_key(client, "/snapshot", "schema_version")


def _has_key(client: JsonClient, path: str, key: str) -> bool:
    try:
        found = client.get(path).document
    except KubeError:
        return False
    return isinstance(found, Mapping) and key in found


# --- views of snapshots ---------------------------------------------------


_CLOCKS = ("graphics", "sm", "aicore", "npu")  # the first of these that a device has is its clock


def node_view(
    snapshot: Snapshot,
    *,
    key: str,
    source: str,
    age_seconds: float,
    error: str | None = None,
    document: Mapping[str, Any] | None = None,
) -> NodeView:
    vendors = {device.vendor for device in snapshot.devices}
    labels = {d.id: device_label(d.vendor, d.index, d.id, len(vendors) > 1) for d in snapshot.devices}
    pods = _pods(snapshot)
    usages: defaultdict[str, list[PodUsage]] = defaultdict(list)
    for usage in snapshot.pod_usages:
        usages[usage.device].append(usage)
    return NodeView(
        key=key,
        name=snapshot.node,
        source=source,
        error=error,
        age_seconds=age_seconds,
        driver=", ".join(_drivers(snapshot.readers)) or None,
        drivers_found=any(reader.found for reader in snapshot.readers),
        read=any(reader.up for reader in snapshot.readers),
        devices=tuple(_device(device, key, pods, usages[device.id]) for device in snapshot.devices),
        processes=tuple(_processes(snapshot.processes, key, labels)),
        troubles=tuple(_troubles(snapshot)),
        notes=tuple(
            humanize(": ".join(filter(None, (state.source, state.reason or "not up", state.error))))
            for state in snapshot.attribution
            if not state.up
        ),
        document=document,
    )


def device_label(vendor: str, index: int | None, id: str, several_vendors: bool) -> str:  # noqa: A002
    number = id.removeprefix(f"{vendor}:")[:12] if index is None else str(index)
    return f"{vendor} {number}" if several_vendors else number


def unread(vendor: str, reason: str | None) -> str:
    """The problem of a driver that was found and cannot be read."""
    return f"{vendor}: cannot read the driver: {humanize(reason or 'no device answers')}"


def _drivers(readers: Iterable[ReaderState]) -> Iterable[str]:
    for reader in readers:
        if reader.found and reader.driver_version:
            yield f"{reader.vendor} {reader.driver_version}"


def _troubles(snapshot: Snapshot) -> Iterable[str]:
    shown = Counter(device.vendor for device in snapshot.devices)
    for reader in snapshot.readers:
        if reader.found and not reader.up:
            yield unread(reader.vendor, reader.reason)
        elif (missing := reader.devices_expected - shown[reader.vendor]) > 0:
            # Devices that are listed have their own state.
            yield f"{reader.vendor}: {missing} of {reader.devices_expected} devices were never seen"


def _pods(snapshot: Snapshot) -> dict[tuple[str, str | None], tuple[str, ...]]:
    """The pods of each device and each partition."""
    found: defaultdict[tuple[str, str | None], dict[str, None]] = defaultdict(dict)
    for usage in snapshot.pod_usages:
        name = f"{usage.namespace}/{usage.pod}"
        found[usage.device, None][name] = None
        if usage.partition is not None:
            found[usage.device, usage.partition][name] = None
    return {place: tuple(names) for place, names in found.items()}


def _idle_seconds(usages: Sequence[PodUsage]) -> float | None:
    """Since any of its pods used it; None if it is not allocated, or not known for all of them."""
    allocated = [usage.idle_seconds for usage in usages if usage.allocated]
    known = [seconds for seconds in allocated if seconds is not None]
    return min(known) if known and len(known) == len(allocated) else None


def _idle_ratio(usages: Sequence[PodUsage]) -> float:
    shares = zip(usages, usage_shares(usages), strict=True)
    return sum(share for usage, share in shares if is_idle(usage.idle_seconds))


def _device(
    device: Device,
    node: str,
    pods: Mapping[tuple[str, str | None], tuple[str, ...]],
    usages: Sequence[PodUsage],
) -> DeviceView:
    clocks = {clock.domain: clock.hertz for clock in device.clocks}
    fans = [fan.speed_ratio for fan in device.fans if fan.speed_ratio is not None]
    key = f"{node} {device.id}"
    return DeviceView(
        key=key,
        node=node,
        id=device.id,
        vendor=device.vendor,
        index=device.index,
        model=device.model,
        health=device.health.state,
        health_reason=device.health.reason,
        health_action=device.health.action,
        stale=device.stale,
        read_at=device.read_at,
        utilization_ratio=device.utilization_ratio,
        memory_used_bytes=device.memory_used_bytes,
        memory_total_bytes=device.memory_total_bytes,
        power_watts=device.power_watts,
        power_limit_watts=device.power_limit_watts,
        temperature_celsius=device.temperature_celsius,
        temperature_slowdown_celsius=device.temperature_slowdown_celsius,
        fan_ratio=max(fans, default=None),
        clock_hertz=next((clocks[name] for name in _CLOCKS if clocks.get(name) is not None), None),
        throttles=tuple(throttle.reason for throttle in device.throttles if throttle.active),
        pods=pods.get((device.id, None), ()),
        idle_seconds=_idle_seconds(usages),
        idle_ratio=_idle_ratio(usages),
        partitions=tuple(
            _partition(partition, key, pods.get((device.id, partition.id), ()))
            for partition in device.partitions
        ),
    )


def _partition(partition: Partition, device: str, pods: tuple[str, ...]) -> PartitionView:
    return PartitionView(
        key=f"{device} {partition.id}",
        id=partition.id,
        label=partition.profile or partition.device_name or partition.id,
        index=partition.index,
        utilization_ratio=partition.utilization_ratio,
        memory_used_bytes=partition.memory_used_bytes,
        memory_total_bytes=partition.memory_total_bytes,
        pods=pods,
    )


def _processes(processes: Iterable[Process], node: str, labels: Mapping[str, str]) -> Iterable[ProcessView]:
    by_pid: defaultdict[int, list[Process]] = defaultdict(list)
    for process in processes:
        by_pid[process.pid].append(process)
    for pid, found in by_pid.items():
        first, owner = found[0], found[0].owner or Owner(kind=OwnerKind.UNKNOWN)
        gone = owner.reason is UnattributedReason.PROCESS_GONE
        yield ProcessView(
            key=f"{node} {pid}",
            node=node,
            pid=pid,
            name=first.name,
            user=first.user,
            uses=tuple(_use(process, node, labels) for process in found),
            cpu_ratio=first.cpu_ratio,
            resident_memory_bytes=first.resident_memory_bytes,
            started_at=first.started_at,
            namespace=owner.namespace,
            pod=owner.pod,
            container=owner.container,
            owner_kind=owner.kind,
            owner="gone from /proc" if gone else owner.name,
        )


def _use(process: Process, node: str, labels: Mapping[str, str]) -> ProcessUse:
    device = process.device or ""
    key = f"{node} {device}"
    index = "?" if process.device_index is None else str(process.device_index)
    return ProcessUse(
        device=key,
        label=labels.get(device, index),
        partition=f"{key} {process.partition}" if process.partition is not None else None,
        type=process.type,
        memory_bytes=process.memory_bytes,
        utilization_ratio=process.utilization_ratio,
    )
