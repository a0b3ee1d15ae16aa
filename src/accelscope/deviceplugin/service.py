"""The gRPC service v1beta1.DevicePlugin, which the kubelet calls."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NoReturn

import grpc

from accelscope.deviceplugin.messages import device_plugin_pb2 as messages
from accelscope.deviceplugin.metrics import Tally
from accelscope.deviceplugin.offers import Inventory, Offer
from accelscope.deviceplugin.vendor import AllocatedDevice, ContainerEdits, DeviceUnavailable
from accelscope.deviceplugin.watch import DriverCalls
from accelscope.vendors.common.contract import ReaderError

log = logging.getLogger(__name__)

NAME = "v1beta1.DevicePlugin"
MAX_STREAMS = 8  # of kubelets: one that runs, and earlier ones whose connection is not closed yet

_HEALTHY, _UNHEALTHY = "Healthy", "Unhealthy"
_STREAM_CHECK_SECONDS = 1.0
_ALLOCATE_SECONDS = 10.0
_MAX_NUMA_NODES = 8  # with more there are too many combinations to try, and NUMA nodes are ignored

MakeEdits = Callable[[list[AllocatedDevice]], ContainerEdits]


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of an id, as far as it is known."""

    id: str
    card: str
    numa_node: int | None
    order: tuple[int, int, str]  # within the card: first core, share


def preferred(
    available: Sequence[str], must: Sequence[str], size: int, offers: Mapping[str, Offer]
) -> list[str]:
    """Choose `size` of `available` for a container, with all of `must`; fewer if fewer are available, more if
    `must` has more. An id that is not offered counts as a card of its own.

    Prefers few cards: whole cards stay free for others, and a container's cores are close together. Then few
    NUMA nodes, then the fullest cards and adjacent cores."""
    needed = [_place(each, offers) for each in dict.fromkeys(must)]
    required = {place.id for place in needed}
    free: dict[str, list[_Place]] = {}
    for each in dict.fromkeys(available):
        if each not in required:
            place = _place(each, offers)
            free.setdefault(place.card, []).append(place)
    chosen: dict[str, list[_Place]] = {}
    for place in needed:
        chosen.setdefault(place.card, []).append(place)
    missing = min(size - len(needed), sum(map(len, free.values())))
    taken = list(needed)
    # Cards that the container uses anyway, those with the fewest free units first.
    for card in sorted(chosen, key=lambda card: len(free.get(card, ()))):
        if missing > 0:
            picked = _adjacent(free.pop(card, []), chosen[card], missing)
            taken += picked
            missing -= len(picked)
    if missing > 0:
        nodes = {place.numa_node for place in needed}
        for card, count in _fewest_cards(free, missing, nodes):
            taken += _adjacent(free[card], [], count)
    return [place.id for place in taken]


def _place(each: str, offers: Mapping[str, Offer]) -> _Place:
    offer = offers.get(each)
    if offer is None:
        return _Place(each, each, None, (0, 0, each))
    first = offer.cores[0] if offer.cores else 0
    return _Place(each, offer.device.id, offer.numa_node, (first, offer.share, each))


def _fewest_cards(
    free: Mapping[str, Sequence[_Place]], missing: int, nodes: set[int | None]
) -> list[tuple[str, int]]:
    """Cards and how many units to take from each; `nodes` are those that the container uses already."""
    on_node = {card: places[0].numa_node for card, places in free.items()}
    others = sorted(set(on_node.values()) - nodes, key=lambda node: (node is None, node or 0))
    best: list[tuple[str, int]] | None = None
    for added in range(len(others) + 1) if len(others) <= _MAX_NUMA_NODES else (len(others),):
        for extra in combinations(others, added):
            within = {
                card: len(free[card]) for card in free if on_node[card] in nodes or on_node[card] in extra
            }
            if sum(within.values()) >= missing:
                plan = _packed(within, missing)
                if best is None or len(plan) < len(best):
                    best = plan
    assert best is not None  # all nodes together have enough
    return best


def _packed(room: Mapping[str, int], missing: int) -> list[tuple[str, int]]:
    """The largest cards until one card has enough for the rest; then the smallest such card."""
    plan: list[tuple[str, int]] = []
    left = dict(room)
    while missing > 0:
        enough = [card for card, count in left.items() if count >= missing]
        card = min(enough, key=lambda card: left[card]) if enough else max(left, key=lambda card: left[card])
        plan.append((card, min(missing, left.pop(card))))
        missing -= plan[-1][1]
    return plan


def _adjacent(free: Sequence[_Place], beside: Sequence[_Place], count: int) -> list[_Place]:
    """At most `count` units of one card, close to each other and to those that the container already has."""
    ordered = sorted(free, key=lambda place: place.order)
    if count >= len(ordered):
        return ordered
    present = [place.order[0] for place in beside]

    def spread(start: int) -> tuple[int, int, int]:
        window = [place.order[0] for place in ordered[start : start + count]] + present
        return max(window) - min(window), ordered[start].order[0] % count, start

    start = min(range(len(ordered) - count + 1), key=spread)
    return ordered[start : start + count]


class PluginService:
    """`make_edits` may block in the driver; it has `_ALLOCATE_SECONDS`."""

    def __init__(
        self,
        inventory: Inventory,
        tally: Tally,
        make_edits: MakeEdits,
        note_allocated: Callable[[Iterable[str]], None],
    ) -> None:
        self._inventory = inventory
        self._tally = tally
        self._make_edits = make_edits
        self._note_allocated = note_allocated
        self._calls = DriverCalls()

    def handlers(self) -> Any:
        def unary(method: Any, request: Any, response: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=request.FromString,
                response_serializer=response.SerializeToString,
            )

        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "GetDevicePluginOptions": unary(self.options, messages.Empty, messages.Options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self.list_and_watch,
                    request_deserializer=messages.Empty.FromString,
                    response_serializer=messages.DeviceList.SerializeToString,
                ),
                "GetPreferredAllocation": unary(
                    self.preferred_allocation,
                    messages.PreferredAllocationRequest,
                    messages.PreferredAllocationResponse,
                ),
                "Allocate": unary(self.allocate, messages.AllocateRequest, messages.AllocateResponse),
                "PreStartContainer": unary(self.pre_start, messages.PreStartContainerRequest, messages.Empty),
            },
        )

    def options(self, _request: messages.Empty, _context: Any) -> messages.Options:
        return own_options()

    def list_and_watch(self, _request: messages.Empty, context: Any) -> Iterator[messages.DeviceList]:
        """Sends the list at once and after each change, until either side closes the stream."""
        token = self._tally.stream_began(MAX_STREAMS)
        if token is None:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open already")
        if not context.add_callback(self._inventory.wake):  # the client has already disconnected
            self._tally.stream_ended(token)
            return
        log.info("the kubelet opened its stream")
        try:
            version = 0
            while context.is_active() and not self._inventory.closed:
                newer = self._inventory.wait_for_change(version, _STREAM_CHECK_SECONDS)
                if newer is not None:
                    version, offers = newer
                    yield messages.DeviceList(devices=[_device(offer) for offer in offers])
        finally:
            self._tally.stream_ended(token)
            log.info("the kubelet closed its stream")

    def preferred_allocation(
        self, request: messages.PreferredAllocationRequest, _context: Any
    ) -> messages.PreferredAllocationResponse:
        self._tally.count("preferred")
        offers = self._inventory.by_id
        return messages.PreferredAllocationResponse(
            container_responses=[
                messages.ContainerPreferredAllocationResponse(
                    device_ids=preferred(
                        each.available_device_ids, each.must_include_device_ids, each.allocation_size, offers
                    )
                )
                for each in request.container_requests
            ]
        )

    def allocate(self, request: messages.AllocateRequest, context: Any) -> messages.AllocateResponse:
        responses = [self._container(list(each.device_ids), context) for each in request.container_requests]
        self._tally.count("allocations")
        return messages.AllocateResponse(container_responses=responses)

    def pre_start(self, _request: messages.PreStartContainerRequest, _context: Any) -> messages.Empty:
        """Never called: the options do not ask for it."""
        return messages.Empty()

    def _container(self, ids: list[str], context: Any) -> messages.ContainerAllocateResponse:
        offers = self._inventory.by_id
        unknown = [each for each in ids if each not in offers]
        if unknown or not ids:
            problem = f"unknown device id {unknown[0][:80]!r}" if unknown else "the request has no device id"
            self._reject(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                "unknown_id",
                f"{problem}; {len(offers)} ids are offered",
            )
        # The kubelet sends ids in random order; programs expect npu0 before npu1.
        requested = set(ids)
        allocated = [
            AllocatedDevice(offer.device, offer.cores) for each, offer in offers.items() if each in requested
        ]
        try:
            edits = self._calls.call(",".join(ids), lambda: self._try_edits(allocated), _ALLOCATE_SECONDS)
        except ReaderError as error:
            self._reject(context, grpc.StatusCode.UNAVAILABLE, error.reason, f"{', '.join(ids)}: {error}")
        if isinstance(edits, DeviceUnavailable):
            self._reject(context, grpc.StatusCode.FAILED_PRECONDITION, "not_available", str(edits))
        self._note_allocated(ids)
        log.info("allocated %s: %s", ", ".join(ids), _summary(edits))
        return _response(edits)

    def _try_edits(self, allocated: list[AllocatedDevice]) -> ContainerEdits | DeviceUnavailable:
        """Returns DeviceUnavailable: DriverCalls would turn it into an unexpected error."""
        try:
            return self._make_edits(allocated)
        except DeviceUnavailable as error:
            return error

    def _reject(self, context: Any, code: Any, reason: str, text: str) -> NoReturn:
        self._tally.count("allocation_errors", reason)
        log.warning("allocation rejected: %s", text)
        context.abort(code, text)
        raise AssertionError("abort does not return")


def own_options() -> messages.Options:
    return messages.Options(pre_start_required=False, get_preferred_allocation_available=True)


def _device(offer: Offer) -> messages.Device:
    topology = None
    if offer.numa_node is not None:
        topology = messages.Topology(nodes=[messages.NumaNode(id=offer.numa_node)])
    health = _HEALTHY if offer.healthy else _UNHEALTHY
    return messages.Device(id=offer.id, health=health, topology=topology)


def _response(edits: ContainerEdits) -> messages.ContainerAllocateResponse:
    return messages.ContainerAllocateResponse(
        envs=edits.environment,
        mounts=[
            messages.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=True)
            for mount in edits.mounts
        ],
        devices=[
            messages.DeviceNode(
                container_path=node.container_path, host_path=node.host_path, permissions=node.permissions
            )
            for node in edits.nodes
        ],
        annotations=edits.annotations,
        cdi_devices=[messages.CdiDevice(name=name) for name in edits.cdi],
    )


def _summary(edits: ContainerEdits) -> str:
    parts = [f"{name}={value}" for name, value in edits.environment.items()]
    parts += edits.cdi
    return ", ".join([*parts, f"{len(edits.nodes)} device nodes", f"{len(edits.mounts)} mounts"])
