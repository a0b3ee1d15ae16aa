"""`nvidia-smi -L`: devices and, below each, its MIG devices with their uuids."""

import re
from collections.abc import Mapping
from dataclasses import replace

from accelscope.model import Device, Partition, Vendor, device_id
from accelscope.readers.nvidia import cells, messages
from accelscope.readers.nvidia.draft import Draft
from accelscope.readers.nvidia.rejections import Rejections
from accelscope.readers.parsed import Parsed

TOOL = "nvidia-smi -L"

_LINE_LIMIT = 1000
_GPU = re.compile(r"GPU\s+(\d{1,4}):(.*)", re.ASCII)
# `MIG 1g.10gb     Device  2: (UUID: MIG-…)`; the profile's grammar is [<c>c.]<g>g.<mem>gb[+me|+gfx …].
_MIG = re.compile(r"\s*MIG\s+(\S{1,64})\s+Device\s+(\d{1,4}):\s*\(UUID:\s*([^\s)]{1,128})\)\s*", re.ASCII)
_OLD_MIG_UUID = re.compile(r"MIG-GPU-.{1,100}/(\d{1,4})/(\d{1,4})", re.ASCII)  # before R470: /<gi>/<ci>


def parse(text: str) -> Parsed:
    drafts: list[Draft] = []
    unreachable: list[Device] = []
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        message = messages.message_of(line)
        gpu = _GPU.match(line.rstrip()) if message is None and len(line) <= _LINE_LIMIT else None
        mig = _MIG.fullmatch(line) if message is None and len(line) <= _LINE_LIMIT else None
        if message is None and gpu is not None:
            message = messages.message_of(gpu[2])  # the GPU's line may say why it cannot be named
        if message is not None:
            rejected.add(message.text, message.reason)
            lost = messages.unreachable(message)
            if lost is not None:
                unreachable.append(replace(lost, index=int(gpu[1])) if gpu else lost)
        elif gpu is not None:
            drafts.append(_device(gpu[1], gpu[2]))
        elif mig is not None and drafts:
            drafts[-1].partitions.append(_partition(mig[1], mig[2], mig[3]))
        else:
            rejected.add(line, "not_a_row")
    for draft in drafts:
        rejected.extend(draft.rejected)
    devices = (*(draft.device() for draft in drafts), *unreachable)
    return Parsed(
        devices=devices,
        error=None if drafts else messages.no_reading(text, TOOL),
        rejected=rejected.listed() if drafts else (),
    )


def named_partitions(measured: Parsed, listed: Parsed) -> Parsed:
    """What was measured, with the uuids and profiles that only `-L` tells.

    Devices are matched by uuid; within one, `Device n` of the list is `<index>` of the XML. A measured
    device without partitions (query CSV never has them) takes those of the list.
    """
    partitions: Mapping[str | None, tuple[Partition, ...]] = {
        device.uuid: device.partitions for device in listed.devices if device.uuid
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
        renamed[partition.id] = told.id
        joined.append(replace(partition, id=told.id, uuid=told.uuid, profile=told.profile))
    return tuple(joined)


def _device(index: str, rest: str) -> Draft:
    draft = Draft()
    name, bracket, tail = rest.rpartition("(UUID:")
    draft.take("index", index, cells.count, "index")
    draft.take("model", name if bracket else rest, cells.words, "name")
    if bracket:
        draft.take("uuid", tail.strip().removesuffix(")"), cells.uuid, "uuid")
    return draft


def _partition(profile: str, index: str, uuid: str) -> Partition:
    instances = _OLD_MIG_UUID.fullmatch(uuid)
    return Partition(
        id=device_id(Vendor.NVIDIA, uuid=uuid),
        uuid=uuid,
        index=int(index),
        profile=profile,
        gpu_instance_id=int(instances[1]) if instances else None,
        compute_instance_id=int(instances[2]) if instances else None,
    )
