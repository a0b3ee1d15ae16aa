"""The kubelet's checkpoint file, and the formats of attribution that `accelscope parse` reads."""

import base64
import json
from dataclasses import dataclass, field
from typing import TypeGuard

from accelscope.attribution import cgroup, shares
from accelscope.attribution.pod_resources import fields, string
from accelscope.kube.endpoint import DecodeError
from accelscope.parsing import DeviceGrant, OutputFormat, ParseError, ParseResult, Rejections, without_halves
from accelscope.vendors import declarations

_LONGEST = 512  # of any name in the file
_ENTRIES = "PodDeviceEntries"
_VISIBLE_DEVICES = frozenset(name for vendor in declarations().values() for name in vendor.visible_devices)
_VISIBLE_FOLDERS = frozenset(vendor.visible_devices_folder for vendor in declarations().values())
_NO_DEVICE = frozenset({"all", "none", "void"})
_CDI_ANNOTATION = "cdi.k8s.io/"


def parse_checkpoint(text: str) -> ParseResult:
    text = text.removeprefix("\ufeff")
    if not text.strip():
        return _failed("empty", "the file is empty")
    try:
        document = json.loads(without_halves(text))
    except json.JSONDecodeError as error:
        return _failed("not_json", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except (ValueError, RecursionError):  # a number of thousands of digits, too deep
        return _failed("not_json", "not JSON of a kubelet")
    content = document.get("Data") if isinstance(document, dict) else None
    if not isinstance(content, dict):
        return _failed("not_a_checkpoint", "not a checkpoint of the device manager: Data is missing")
    entries = content.get(_ENTRIES)
    if entries is None:  # the kubelet writes null where no container has a device
        entries = []
    if not isinstance(entries, list):
        return _failed(
            "not_a_checkpoint", f"not a checkpoint of the device manager: {_ENTRIES} is not a list"
        )
    rejections = Rejections()
    grants = [_grant(entry, f"{_ENTRIES}[{at}]", rejections) for at, entry in enumerate(entries)]
    return ParseResult(allocations=tuple(filter(None, grants)), rejected=rejections.listed())


def _failed(reason: str, text: str) -> ParseResult:
    return ParseResult(error=ParseError(reason, text))


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
    response = _response(entry.get("AllocResp"), f"{where}.AllocResp", rejections)
    return DeviceGrant(
        pod_uid,
        container,
        resource,
        ids,
        visible_devices=tuple(response.visible),
        device_files=tuple(response.files),
        cdi_devices=tuple(response.cdi),
    )


@dataclass(slots=True)
class _AllocateResponse:
    """The devices in a ContainerAllocateResponse of the device plugin API. Nothing else is kept, because
    environment variables may contain secrets."""

    visible: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    cdi: dict[str, None] = field(default_factory=dict)
    mounted_list: bool = False  # the variable names a folder with one file per device
    mounts: list[str] = field(default_factory=list)  # paths in the container

    def add(self, number: int, message: memoryview) -> None:
        """Add one field, by its number in the published api.proto."""
        texts = {place: value for place, value in fields(message) if value is not None}
        first, second = (string(texts[place]) if place in texts else "" for place in (1, 2))
        match number:
            case 1 if first in _VISIBLE_DEVICES:
                self._add_visible(second)
            case 2:
                self.mounts.append(first)
            case 3 if _is_name(second):
                self.files[second] = None
            case 4 if first.startswith(_CDI_ANNOTATION):
                self.cdi.update(dict.fromkeys(filter(_is_name, second.split(","))))
            case 5 if _is_name(first):
                self.cdi[first] = None

    def _add_visible(self, value: str) -> None:
        names = [name.strip() for name in value.split(",")]
        self.mounted_list = any(name.startswith("/") for name in names)
        self.visible.update(
            (name, None) for name in names if _is_name(name) and name not in _NO_DEVICE and name[0] != "/"
        )


def _response(value: object, where: str, rejections: Rejections) -> _AllocateResponse:
    response = _AllocateResponse()
    if value is None or value == "":
        return response
    if not isinstance(value, str):
        rejections.add(where, "not_an_answer")
        return response
    try:
        for number, message in fields(base64.b64decode(value, validate=True)):
            if message is not None:
                response.add(number, message)
    except (ValueError, DecodeError):
        rejections.add(where, "not_an_answer")
        return _AllocateResponse()
    if response.mounted_list:
        for path in response.mounts:
            folder, _, name = path.rpartition("/")
            if folder in _VISIBLE_FOLDERS and _is_name(name):
                response.visible[name] = None
    return response


def _device_ids(value: object, where: str, rejections: Rejections) -> tuple[str, ...] | None:
    """An object by NUMA node since Kubernetes 1.20, a list before. None if it is neither."""
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


# --- formats of accelscope parse ------------------------------------------


SOURCES = (
    OutputFormat(
        "proc-cgroup",
        "/proc/<pid>/cgroup: the pod and the container of a process",
        lambda text, _fields: cgroup.parse_cgroup(text),
        output="containers",
    ),
    OutputFormat(
        "proc-mountinfo",
        "/proc/<pid>/mountinfo: the same, if the cgroup file does not contain them",
        lambda text, _fields: cgroup.parse_mountinfo(text),
        output="containers",
    ),
    OutputFormat(
        "kubelet-checkpoint",
        "the kubelet's kubelet_internal_checkpoint: device ids and devices of each container",
        lambda text, _fields: parse_checkpoint(text),
        output="allocations",
    ),
    OutputFormat(
        "gpu-allocation",
        "gpu_allocation.txt: the number of shares per device",
        lambda text, _fields: shares.parse_gpu_allocation(text),
        output="ratio",
    ),
)
