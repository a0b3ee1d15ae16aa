"""`dcgm`: the names of NVIDIA's dcgm-exporter."""

import re
from collections.abc import Iterable
from dataclasses import replace

from accelscope.metrics.dialects.dcgm_counters import LABEL, Counter, read_counters
from accelscope.metrics.dialects.dcgm_fields import (
    DEFAULT_LABELS,
    LABEL_FIELDS,
    bus_id,
    default_fields,
    further_fields,
    why_unavailable,
)
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Missing, Section, Unavailable
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family, Type
from accelscope.model import Partition, Vendor

_COMPUTE_SLICE = re.compile(r"^\d+c\.")


def dialect(*, counters_file: str | None = None, hostname_label: str = "Hostname") -> Dialect:
    default, further = default_fields(), further_fields()
    families, labels = default, DEFAULT_LABELS
    unavailable: tuple[Unavailable, ...] = ()
    if counters_file is not None:
        families, labels, unavailable = _chosen(read_counters(counters_file), (*default, *further))
    return Dialect(
        name="dcgm",
        exporter="NVIDIA dcgm-exporter 4.5.3-4.8.2, the counters of its image (etc/default-counters.csv)",
        vendors=(Vendor.NVIDIA,),
        sections=(Section(labels_of(hostname_label, labels), families),),
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
            unavailable.append(Unavailable(counter.line, counter.field, reason))
        else:
            unavailable.append(Unavailable(counter.line, counter.field, why_unavailable(counter.field)))
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


def labels_of(hostname_label: str, fields: Iterable[str]) -> Labels:
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
            Label(hostname_label, lambda v: v.node.name, keep_empty=False),
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
