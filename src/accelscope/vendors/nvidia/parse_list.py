"""`nvidia-smi -L`: devices and, below each, its MIG devices with their uuids."""

import re
from collections.abc import Mapping
from dataclasses import replace

from accelscope.model import Partition, Vendor, device_id, is_masked
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, messages
from accelscope.vendors.nvidia.draft import NvidiaDraft

LIST = "nvidia-smi -L"

_LINE_LIMIT = 1000
_GPU = re.compile(r"\s*GPU\s+(\d{1,4}):(.*)", re.ASCII)
# `MIG 1g.10gb     Device  2: (UUID: MIG-…)`; the profile's grammar is [<c>c.]<g>g.<mem>gb[+me|+gfx …].
_MIG = re.compile(r"\s*MIG\s+(\S{1,64})\s+Device\s+(\d{1,4}):\s*\(UUID:\s*([^\s)]{1,128})\)\s*", re.ASCII)
_OLD_MIG_UUID = re.compile(r"MIG-GPU-.{1,100}/(\d{1,4})/(\d{1,4})", re.ASCII)  # before R470: /<gi>/<ci>


def parse_list(text: str) -> Parsed:
    drafts: list[NvidiaDraft] = []
    said = messages.Said()
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        gpu, mig = (
            pattern.fullmatch(line.rstrip()) if len(line) <= _LINE_LIMIT else None for pattern in (_GPU, _MIG)
        )
        message = messages.message_of(gpu[2] if gpu else line)  # a GPU's line may say why it has no name
        if message is not None:
            said.add(replace(message, index=int(gpu[1])) if gpu else message)
        elif gpu is not None:
            drafts.append(_device(gpu[1], gpu[2]))
        elif mig is not None and drafts:
            drafts[-1].partitions.append(_partition(mig[1], mig[2], mig[3], parent=drafts[-1].id))
        else:
            rejected.add(line, "not_a_row")
    devices = messages.with_unreachable((draft.device() for draft in drafts), said)
    if not drafts:
        return Parsed(devices=devices, error=messages.no_reading(text, LIST))
    for draft in drafts:
        rejected.extend(draft.rejected)
    for message in said:
        rejected.add(message.text, message.reason)
    return Parsed(devices=devices, rejected=rejected.listed())


def named_partitions(measured: Parsed, listed: Parsed) -> Parsed:
    """What was measured, with the uuids and profiles that only `-L` tells.

    Devices are matched by uuid; within one, `Device n` of the list is `<index>` of the XML. A measured
    device without partitions (query CSV never has them) takes those of the list.
    """
    partitions: Mapping[str | None, tuple[Partition, ...]] = {
        device.uuid: device.partitions
        for device in listed.devices
        if device.uuid and not is_masked(device.uuid)
    }
    renamed: dict[str, str] = {}
    devices = tuple(
        replace(device, partitions=_joined(device.partitions, partitions.get(device.uuid, ()), renamed))
        for device in measured.devices
    )
    processes = tuple(
        replace(process, partition=renamed[process.partition]) if process.partition in renamed else process
        for process in measured.processes
    )
    return replace(measured, devices=devices, processes=processes)


def _joined(
    measured: tuple[Partition, ...], listed: tuple[Partition, ...], renamed: dict[str, str]
) -> tuple[Partition, ...]:
    by_index: Mapping[int | None, Partition] = {p.index: p for p in listed if p.index is not None}
    if not measured:
        return listed
    joined = []
    for partition in measured:
        told = by_index.get(partition.index)
        if told is None:
            joined.append(partition)
            continue
        name = partition.id if told.uuid is None or is_masked(told.uuid) else told.id
        renamed[partition.id] = name
        joined.append(replace(partition, id=name, uuid=told.uuid, profile=told.profile))
    return tuple(joined)


def _device(index: str, rest: str) -> NvidiaDraft:
    draft = NvidiaDraft()
    name, bracket, tail = rest.rpartition("(UUID:")
    draft.take("index", index, cells.count, "index")
    draft.take("model", name if bracket else rest, cells.words, "name")
    if bracket:
        draft.take("uuid", tail.strip().removesuffix(")"), cells.uuid, "uuid")
    return draft


def _partition(profile: str, index: str, uuid: str, *, parent: str) -> Partition:
    instances = _OLD_MIG_UUID.fullmatch(uuid)
    return Partition(
        id=f"{parent}/mig{int(index)}" if is_masked(uuid) else device_id(Vendor("nvidia"), uuid=uuid),
        uuid=uuid,
        index=int(index),
        profile=profile,
        gpu_instance_id=int(instances[1]) if instances else None,
        compute_instance_id=int(instances[2]) if instances else None,
    )
