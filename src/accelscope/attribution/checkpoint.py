"""The kubelet's `kubelet_internal_checkpoint`: which container was given which device ids.

The format is private to the kubelet, and pods that have ended stay in it for a while: the agent asks the
pod-resources socket instead. This is for looking at a node's file.
"""

import json
from typing import TypeGuard

from accelscope.parsing.json_escapes import without_halves
from accelscope.parsing.parsed import DeviceGrant, Parsed, ParseError
from accelscope.parsing.rejections import Rejections

_LONGEST = 512  # of any name in the file
_ENTRIES = "PodDeviceEntries"


def parse_checkpoint(text: str) -> Parsed:
    text = text.removeprefix("\ufeff")
    if not text.strip():
        return _failed("empty", "the file is empty")
    try:
        document = json.loads(without_halves(text))
    except json.JSONDecodeError as error:
        return _failed("not_json", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except (ValueError, RecursionError):  # a number of thousands of digits, too deep
        return _failed("not_json", "not JSON that any kubelet writes")
    content = document.get("Data") if isinstance(document, dict) else None
    if not isinstance(content, dict):
        return _failed("not_a_checkpoint", "no device manager's checkpoint: there is no Data in it")
    entries = content.get(_ENTRIES)
    if entries is None:  # the kubelet writes null where no container has a device
        entries = []
    if not isinstance(entries, list):
        return _failed("not_a_checkpoint", f"no device manager's checkpoint: {_ENTRIES} is no list")
    rejections = Rejections()
    grants = [_grant(entry, f"{_ENTRIES}[{at}]", rejections) for at, entry in enumerate(entries)]
    return Parsed(allocations=tuple(filter(None, grants)), rejected=rejections.listed())


def _failed(reason: str, text: str) -> Parsed:
    return Parsed(error=ParseError(reason, text))


def _grant(entry: object, where: str, rejections: Rejections) -> DeviceGrant | None:
    if not isinstance(entry, dict):
        rejections.add(where, "not_an_entry")
        return None
    names: list[str] = []
    for key in ("PodUID", "ContainerName", "ResourceName"):
        name = entry.get(key)
        if not _is_name(name):
            rejections.add(f"{where}.{key}", "missing" if name is None else "not_a_name")
            return None
        names.append(name)
    ids = _device_ids(entry.get("DeviceIDs"), f"{where}.DeviceIDs", rejections)
    if ids is None:
        return None
    pod_uid, container, resource = names
    return DeviceGrant(pod_uid, container, resource, ids)


def _device_ids(value: object, where: str, rejections: Rejections) -> tuple[str, ...] | None:
    """By NUMA node since Kubernetes 1.20, a plain list before. None: neither."""
    if value is None:
        return ()
    if not isinstance(value, dict | list):
        rejections.add(where, "not_device_ids")
        return None
    ids: list[str] = []
    for node, listed in value.items() if isinstance(value, dict) else (("", value),):
        place = f"{where}[{node[:_LONGEST]}]" if node else where
        if listed is not None and not isinstance(listed, list):
            rejections.add(place, "not_device_ids")
            continue
        for device_id in listed or ():
            if _is_name(device_id):
                ids.append(device_id)
            else:
                rejections.add(place, "not_a_name")
    return tuple(dict.fromkeys(ids))


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
