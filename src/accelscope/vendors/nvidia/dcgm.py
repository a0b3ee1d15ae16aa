"""The dialect `dcgm`: the metrics of NVIDIA's dcgm-exporter, by default or by a counters file.

A counters file has `field, type, help text` on each line; `#` begins a comment. A row of type `label` adds
the field to every series as a label. Type and help text come from the file, as in dcgm-exporter. A field that
is not available is reported and omitted, while dcgm-exporter fails on a field that its DCGM library does not
have.
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
    LabelOrder,
    MissingMetrics,
    Section,
    UnavailableField,
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
_MAX_BYTES = 1 << 20
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Counter:
    line: int
    field: str
    type: str
    help: str


def read_counters(path: str) -> tuple[Counter, ...]:
    """Raises DialectError with the path and, if possible, the line."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: larger than {_MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: not UTF-8") from None
    counters: dict[str, Counter] = {}
    for line, cells in _rows(path, text):
        counter = _counter(f"{path}:{line}", line, cells)
        first = counters.setdefault(counter.field, counter)
        if first is not counter:
            raise DialectError(
                DCGM_COUNTERS.name, f"{path}:{line}: {counter.field} is already on line {first.line}"
            )
    if not counters:
        raise DialectError(DCGM_COUNTERS.name, f"{path}: no counters, only comments or empty lines")
    return tuple(counters.values())


def _rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line."""
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
        number = begin + reader.line_num  # a quoted text may span several lines
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
            DCGM_COUNTERS.name, f"{where}: invalid type {kind[:80]!r}; allowed: {', '.join(TYPES)}"
        )
    return Counter(line, field, kind, text)


_COMPUTE_SLICE = re.compile(r"^\d+c\.")


def dialect(options: Mapping[str, str]) -> Dialect:
    counters_file = DCGM_COUNTERS.of(options)
    default, further = default_fields(), further_fields()
    families, labels = default, DEFAULT_LABELS
    unavailable: tuple[UnavailableField, ...] = ()
    if counters_file:
        families, labels, unavailable = _select(read_counters(counters_file), (*default, *further))
    return Dialect(
        name="dcgm",
        exporter="NVIDIA dcgm-exporter 4.5.3-4.8.2, the counters of its image (etc/default-counters.csv)",
        vendors=(Vendor("nvidia"),),
        sections=(Section(_labels(options, labels), families),),
        divide=instances,
        notes=NOTES,
        missing=MISSING,
        optional_families=further,
        optional_setting=DCGM_COUNTERS.name,
        rates=("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",),
        unavailable=unavailable,
    )


def _select(
    counters: Iterable[Counter], available: Iterable[Family]
) -> tuple[tuple[Family, ...], tuple[str, ...], tuple[UnavailableField, ...]]:
    """Families and labels of a counters file, and its fields that are not available."""
    by_name = {family.name: family for family in available}
    families, labels, unavailable = [], [], []
    for counter in counters:
        if counter.type == LABEL and counter.field in LABEL_FIELDS:
            labels.append(counter.field)
        elif counter.type != LABEL and counter.field in by_name:
            families.append(replace(by_name[counter.field], type=Type(counter.type), help=counter.help))
        elif counter.field in by_name:
            reason = "a number: not available as a label"
            unavailable.append(UnavailableField(DCGM_COUNTERS.name, counter.line, counter.field, reason))
        else:
            unavailable.append(
                UnavailableField(
                    DCGM_COUNTERS.name, counter.line, counter.field, unavailability_reason(counter.field)
                )
            )
    return tuple(families), tuple(labels), tuple(unavailable)


def instances(view: DeviceView) -> Iterable[DeviceView]:
    """The GPU instances of a GPU in MIG mode, or the GPU itself. Compute instances are not distinguished."""
    by_instance: dict[int, Partition] = {}
    for partition in view.device.partitions:
        if partition.gpu_instance_id is not None:
            by_instance.setdefault(partition.gpu_instance_id, partition)
    return [replace(view, partition=partition) for partition in by_instance.values()] or (view,)


def _profile(view: DeviceView) -> str:
    """The profile of the GPU instance: `3g.40gb` for its compute instance `1c.3g.40gb`."""
    profile = view.partition.profile if view.partition else None
    return _COMPUTE_SLICE.sub("", profile or "")


def _index(view: DeviceView) -> str:
    return "" if view.device.index is None else str(view.device.index)


def _instance_id(view: DeviceView) -> str:
    return str(view.partition.gpu_instance_id) if view.partition else ""


def exporter_labels(options: Mapping[str, str]) -> LabelOrder:
    """The labels without a counters file, of a whole GPU: other dialects have no series of instances."""
    return _labels(options, DEFAULT_LABELS).without("GPU_I_PROFILE").without("GPU_I_ID")


def _labels(options: Mapping[str, str], fields: Iterable[str]) -> LabelOrder:
    """Labels of a counters file follow the host name, in alphabetical order."""
    return LabelOrder(
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
    "`--dcgm-counters FILE` selects the fields with a counters file in the format of dcgm-exporter: one "
    "`field, type, help text` per line; `#` begins a comment. Type (`gauge`, `counter`) and help text come "
    "from the file. A row of type `label` adds the field to every series as a label. A malformed file is an "
    "error with its line number: the agent does not start, and a running agent keeps its current page. A "
    "field that is not available is logged as a warning, listed by `accelscope doctor`, and omitted.",
    "`Hostname` contains the node's name, as in dcgm-exporter up to 4.8.2. `--dcgm-hostname-label hostname` "
    "writes the label in lower case, as 4.8.3 and later do.",
    "A GPU in MIG mode has series for its instances (`GPU_I_PROFILE`, `GPU_I_ID`) and none of its own. Each "
    "instance repeats the values of the whole GPU, such as temperature and energy.",
    "`pod`, `namespace` and `container` are those that the GPU or instance is allocated to, else the only "
    "pod with processes on it. They are omitted if there is no pod, as in dcgm-exporter, and if several pods "
    "share the GPU, because its series then contain the values of all of them. `accelerator_pod_*` has "
    "separate values.",
    "`DCGM_FI_DEV_XID_ERRORS` has no series until the first XID since the agent started. The text of "
    "`err_msg` may change; match on `err_code`.",
    "`DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a rate although its type is counter, as in dcgm-exporter up to "
    "4.8.2. It begins with the second reading.",
    "`DCGM_FI_PROF_*` come from NVML's GPM counters, which Hopper and later boards have. Other data centre "
    "boards have the two PCIe rates only.",
    "The chart of dcgm-exporter omits `DCGM_FI_DEV_FB_RESERVED` and `DCGM_FI_DRIVER_VERSION`. This dialect "
    "follows the image, which has them.",
    "The dashboard `grafana/dcgm-exporter-dashboard.json` (12239) finds all names and labels that it uses. "
    "The OpenShift console plugin needs four more fields, which are in no default list: "
    "`DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX`, `DCGM_FI_DEV_MAX_SM_CLOCK`, `DCGM_FI_DEV_MAX_MEM_CLOCK` and "
    "`DCGM_FI_DEV_FAN_SPEED`. List them in a counters file.",
)
MISSING = (
    MissingMetrics("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "licences of virtual GPUs are not read"),
    MissingMetrics(
        "DCGM_FI_DEV_MEMORY_TEMP of GPUs without that sensor",
        "unknown values are omitted; dcgm-exporter publishes 0",
    ),
    MissingMetrics(
        "DCGM_FI_DEV_XID_ERRORS before the first XID",
        "omitted as in dcgm-exporter 4.8.2; earlier versions publish 0",
    ),
    MissingMetrics(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL of GPUs without NVLink",
        "unknown values are omitted; some versions of dcgm-exporter publish 0",
    ),
    MissingMetrics(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, DCGM_FI_PROF_DRAM_ACTIVE on boards "
        "before Hopper",
        "their profiling counters are only available through DCGM",
    ),
    MissingMetrics(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT", "`DCGM_FI_DEV_ENFORCED_POWER_LIMIT` has the power limit in effect"
    ),
    MissingMetrics(
        "DCGM_FI_DEV_*_VIOLATION", "AccelScope reads which throttle reasons are active, not for how long"
    ),
    MissingMetrics(
        "DCGM_EXP_*",
        "counts within a time window; the native families have states and totals: "
        "`accelerator_errors_total`, `accelerator_throttled`, `accelerator_health`",
    ),
    MissingMetrics(
        "DCGM_FI_*_CELSIUS, DCGM_FI_*_WATTS, DCGM_FI_*_HERTZ, DCGM_FI_*_RATIO, DCGM_FI_*_JOULES_TOTAL",
        "dcgm-exporter 4.9 and later renamed most metrics; this dialect has the names up to 4.8.2",
    ),
    MissingMetrics("every other field `DCGM_FI_*`", "AccelScope does not read it"),
    MissingMetrics(
        "pod_uid, vgpu, hpc_job, dra_* and pod labels",
        "labels that dcgm-exporter does not set by default",
    ),
)
