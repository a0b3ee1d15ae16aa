"""One snapshot of a node that several sources told of."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from accelscope.fleet.store.node_rows import Part
from accelscope.model import Snapshot


def whole_node(node: str, parts: Sequence[Part]) -> Snapshot:
    """The first part's, with what the others tell of the devices that are theirs; under the node's name in
    its cluster, and by this process's clock."""
    first, *others = [_only(part) for part in parts]
    first = replace(first, node=node, taken_at=parts[0].taken_at)
    if not others:
        return first
    every = (first, *others)
    pods = {(pod.namespace, pod.name): pod for snapshot in every for pod in snapshot.pods}
    return replace(
        first,
        readers=tuple(chain.from_iterable(s.readers for s in every)),
        devices=tuple(chain.from_iterable(s.devices for s in every)),
        processes=tuple(chain.from_iterable(s.processes for s in every)),
        pods=tuple(pods.values()),
        allocations=tuple(chain.from_iterable(s.allocations for s in every)),
        pod_usages=tuple(chain.from_iterable(s.pod_usages for s in every)),
        unattributed=tuple(chain.from_iterable(s.unattributed for s in every)),
        balances=tuple(chain.from_iterable(s.balances for s in every)),
    )


def _only(part: Part) -> Snapshot:
    """Without the devices that another source tells of, and all that belongs to them."""
    snapshot = part.snapshot
    devices = tuple(device for device in snapshot.devices if device.vendor in part.vendors)
    if len(devices) == len(snapshot.devices):
        return snapshot
    others = {device.id for device in snapshot.devices if device.vendor not in part.vendors}
    vendors_of_others = {device.vendor for device in snapshot.devices if device.id in others}
    return replace(
        snapshot,
        readers=tuple(reader for reader in snapshot.readers if reader.vendor not in vendors_of_others),
        devices=devices,
        processes=tuple(process for process in snapshot.processes if process.device not in others),
        allocations=tuple(given for given in snapshot.allocations if given.device not in others),
        pod_usages=tuple(usage for usage in snapshot.pod_usages if usage.device not in others),
        unattributed=tuple(use for use in snapshot.unattributed if use.device not in others),
        balances=tuple(balance for balance in snapshot.balances if balance.device not in others),
    )
