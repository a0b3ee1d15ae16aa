"""`dcgm`: the names of NVIDIA's dcgm-exporter, all or those that a counters file of it chooses.

A counters file has `field, type, help text` on each line; `#` begins a comment. A row of type `label` puts
the field on every series as a label. dcgm-exporter takes type and help text from the file, and so do we. It
rejects names that its DCGM library does not have, so a file that was made for another version breaks the
exporter. Here such a field is reported and the others are served.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.files import open_regular
from accelscope.metrics.dialects import (
    DeviceView,
    Dialect,
    DialectError,
    Label,
    Labels,
    Missing,
    Section,
    Unavailable,
)
from accelscope.metrics.family import Family, Type
from accelscope.model import Partition, Vendor
from accelscope.vendors.nvidia import DCGM_COUNTERS, DCGM_HOSTNAME_LABEL
from accelscope.vendors.nvidia.dcgm_fields import (
    DEFAULT_LABELS,
    LABEL_FIELDS,
    bus_id,
    default_fields,
    further_fields,
    unavailability_reason,
)

GAUGE, COUNTER, LABEL = TYPES = ("gauge", "counter", "label")
_FIELD = re.compile(r"DCGM_[A-Z0-9_]+")
_MOST_BYTES = 1 << 20
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Counter:
    line: int
    field: str
    type: str
    help: str


def read_counters(path: str) -> tuple[Counter, ...]:
    """Raises DialectError, with the path and, where one is at fault, the line."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: larger than {_MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: not UTF-8") from None
    counters: dict[str, Counter] = {}
    for line, cells in _rows(path, text):
        counter = _counter(f"{path}:{line}", line, cells)
        before = counters.setdefault(counter.field, counter)
        if before is not counter:
            raise DialectError(
                DCGM_COUNTERS.name, f"{path}:{line}: {counter.field} is already on line {before.line}"
            )
    if not counters:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: no counters, only comments or empty lines")
    return tuple(counters.values())


def _rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line that each begins on."""
    lines = text.splitlines(keepends=True)
    number = 0
    while number < len(lines):
        begin = number
        number += 1
        # As in dcgm-exporter: a row whose first cell is empty or begins with # is skipped.
        if lines[begin].lstrip()[:1] in ("", "#", ","):
            continue
        reader = csv.reader(iter(lines[begin:]), skipinitialspace=True, strict=True)
        try:
            cells = next(reader)
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            problem = "a double quote is never closed" if unclosed else str(error)
            raise DialectError(DCGM_COUNTERS.name, f"{path}:{begin + 1}: {problem}") from None
        number = begin + reader.line_num  # a quoted text may go on over several lines
        yield begin + 1, [cell.strip(" ") for cell in cells]


def _counter(where: str, line: int, cells: list[str]) -> Counter:
    if len(cells) != _COLUMNS:
        problem = f"{len(cells)} columns instead of {_COLUMNS}: field, type, help text"
        if len(cells) > _COLUMNS:
            problem += ". A help text that contains commas needs double quotes"
        raise DialectError(DCGM_COUNTERS.name, f"{where}: {problem}")
    field, kind, text = cells
    if not _FIELD.fullmatch(field):
        raise DialectError(DCGM_COUNTERS.name, f"{where}: {field[:80]!r} is not the name of a DCGM field")
    if kind not in TYPES:
        raise DialectError(
            DCGM_COUNTERS.name, f"{where}: the type {kind[:80]!r} is none of {', '.join(TYPES)}"
        )
    return Counter(line, field, kind, text)


_COMPUTE_SLICE = re.compile(r"^\d+c\.")


def dialect(options: Mapping[str, str]) -> Dialect:
    counters_file = DCGM_COUNTERS.of(options)
    default, further = default_fields(), further_fields()
    families, labels = default, DEFAULT_LABELS
    unavailable: tuple[Unavailable, ...] = ()
    if counters_file:
        families, labels, unavailable = _chosen(read_counters(counters_file), (*default, *further))
    return Dialect(
        name="dcgm",
        exporter="NVIDIA dcgm-exporter 4.5.3-4.8.2, the counters of its image (etc/default-counters.csv)",
        vendors=(Vendor("nvidia"),),
        sections=(Section(_labels(options, labels), families),),
        divide=instances,
        notes=NOTES,
        missing=MISSING,
        optional_families=further,
        unavailable=unavailable,
    )


def _chosen(
    counters: Iterable[Counter], offered: Iterable[Family]
) -> tuple[tuple[Family, ...], tuple[str, ...], tuple[Unavailable, ...]]:
    """Families and labels of a counters file, and what it asks for in vain."""
    by_name = {family.name: family for family in offered}
    families, labels, unavailable = [], [], []
    for counter in counters:
        if counter.type == LABEL and counter.field in LABEL_FIELDS:
            labels.append(counter.field)
        elif counter.type != LABEL and counter.field in by_name:
            families.append(replace(by_name[counter.field], type=Type(counter.type), help=counter.help))
        elif counter.field in by_name:
            reason = "a number: not available as a label"
            unavailable.append(Unavailable(DCGM_COUNTERS.name, counter.line, counter.field, reason))
        else:
            unavailable.append(
                Unavailable(
                    DCGM_COUNTERS.name, counter.line, counter.field, unavailability_reason(counter.field)
                )
            )
    return tuple(families), tuple(labels), tuple(unavailable)


def instances(view: DeviceView) -> Iterable[DeviceView]:
    """GPU instances in the place of a GPU that is cut into them; the compute instances of one of them are not
    told apart."""
    by_instance: dict[int, Partition] = {}
    for partition in view.device.partitions:
        if partition.gpu_instance_id is not None:
            by_instance.setdefault(partition.gpu_instance_id, partition)
    return [replace(view, partition=partition) for partition in by_instance.values()] or (view,)


def _profile(view: DeviceView) -> str:
    """Of the GPU instance: `1c.3g.40gb` is a compute instance of a `3g.40gb`."""
    profile = view.partition.profile if view.partition else None
    return _COMPUTE_SLICE.sub("", profile or "")


def _index(view: DeviceView) -> str:
    return "" if view.device.index is None else str(view.device.index)


def _instance_id(view: DeviceView) -> str:
    return str(view.partition.gpu_instance_id) if view.partition else ""


def exporter_labels(options: Mapping[str, str]) -> Labels:
    """Those without a counters file."""
    return _labels(options, DEFAULT_LABELS)


def _labels(options: Mapping[str, str], fields: Iterable[str]) -> Labels:
    """Labels that a counters file names stand behind the host's name, in alphabetical order."""
    return Labels(
        leading=(
            Label("gpu", _index),
            Label("UUID", lambda v: v.device.uuid),
            Label("pci_bus_id", lambda v: bus_id(v.device)),
            Label("device", lambda v: f"nvidia{_index(v)}"),
            Label("modelName", lambda v: v.device.model),
            Label("GPU_I_PROFILE", _profile, keep_empty=False),
            Label("GPU_I_ID", _instance_id, keep_empty=False),
            Label(DCGM_HOSTNAME_LABEL.of(options), lambda v: v.node.name, keep_empty=False),
            *(Label(field, LABEL_FIELDS[field], keep_empty=False) for field in sorted(fields)),
        ),
        others=(
            Label("container", lambda v: v.container, keep_empty=False),
            Label("namespace", lambda v: v.namespace, keep_empty=False),
            Label("pod", lambda v: v.pod, keep_empty=False),
        ),
    )


NOTES = (
    "`--dcgm-counters FILE` chooses the fields by a counters file in dcgm-exporter's own format: one "
    "`field, type, help text` a line, `#` begins a comment. Type (`gauge`, `counter`) and help text of the "
    "page are those of the file; a row of type `label` puts that field on every series. A malformed file is "
    "an error with its line number: the agent does not start, and a running agent keeps the page that it "
    "has. A field that is not available is logged as a warning, listed by `accelscope doctor`, and left "
    "out.",
    "`Hostname` is the node's name, as dcgm-exporter up to 4.8.2 writes it. `--dcgm-hostname-label hostname` "
    "writes the label in lower case, as 4.8.3 and later do.",
    "A GPU in MIG mode is shown by its instances (`GPU_I_PROFILE`, `GPU_I_ID`) and not itself; each instance "
    "repeats the values of the whole GPU, such as temperature and energy.",
    "`pod`, `namespace` and `container` name who holds the GPU or instance, else the only pod whose "
    "processes use it. They are left out where there is none, as there, and where several pods share a GPU: "
    "its series has the values of all of them. `accelerator_pod_*` tell them apart.",
    "`DCGM_FI_DEV_XID_ERRORS` has no series until the first XID since the agent started. `err_msg` is a text "
    "for people; match on `err_code`.",
    "`DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a rate although its type is counter, as it is there up to "
    "4.8.2. It begins with the second reading.",
    "`DCGM_FI_PROF_*` come from NVML's GPM counters, which Hopper and later boards have; the two PCIe rates "
    "are there on other data centre boards too.",
    "dcgm-exporter's own chart leaves out `DCGM_FI_DEV_FB_RESERVED` and `DCGM_FI_DRIVER_VERSION`; its image, "
    "which this follows, has them.",
    "The dashboard `grafana/dcgm-exporter-dashboard.json` (12239) finds all names and labels that it uses. "
    "The OpenShift console plugin also needs four fields that are in no default list: "
    "`DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX`, `DCGM_FI_DEV_MAX_SM_CLOCK`, `DCGM_FI_DEV_MAX_MEM_CLOCK` and "
    "`DCGM_FI_DEV_FAN_SPEED`. Name them in a counters file.",
)
MISSING = (
    Missing("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "licences of virtual GPUs are not read"),
    Missing(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, DCGM_FI_PROF_DRAM_ACTIVE on boards "
        "before Hopper",
        "their profiling counters are only to be had through DCGM itself",
    ),
    Missing("DCGM_FI_DEV_POWER_MGMT_LIMIT", "`DCGM_FI_DEV_ENFORCED_POWER_LIMIT` has the limit in force"),
    Missing(
        "DCGM_FI_DEV_*_VIOLATION", "AccelScope reads which throttle reasons are active, not for how long"
    ),
    Missing(
        "DCGM_EXP_*",
        "counts within a time window; native families have the states and totals: "
        "`accelerator_errors_total`, `accelerator_throttled`, `accelerator_health`",
    ),
    Missing("every other field", "AccelScope does not read it"),
    Missing(
        "pod_uid, vgpu, hpc_job, dra_* and pod labels",
        "labels that are off by default there",
    ),
)
