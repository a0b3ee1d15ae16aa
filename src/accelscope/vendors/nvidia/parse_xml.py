"""`nvidia-smi -q -x`: all values of each GPU, its MIG devices and its processes."""

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from accelscope.model import AbsenceReason, Device, Partition, Process, pci_address
from accelscope.parsing import ParseError, ParseResult, Rejections
from accelscope.vendors.common.values import identifier, words
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.cells import process_type, program_name
from accelscope.vendors.nvidia.gpu import THROTTLE_BITS, NvidiaDraft, limit_by_margin

# The parser gets only the log element, without the document type with its network DTD and possible entities.
# Ampersands that do not begin a standard entity are escaped first: the tool prints process names unescaped.

_OPEN, _CLOSE = "<nvidia_smi_log", "</nvidia_smi_log>"
_MAX_DEPTH = 32  # the deepest real path has seven
_MAX_ELEMENTS = 1_000_000  # 256 GPUs with all their supported clocks have half of that
_STRAY_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class XmlError(Exception):
    """The document is not well-formed, truncated, too deep or too large."""

    def __init__(self, reason: str, text: str, root: Element | None) -> None:
        super().__init__(text)
        self.reason = reason
        self.root = root  # the elements before the error


def find_log(text: str) -> str | None:
    """The last complete log element, else the beginning of the last. With --loop the tool prints several."""
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else text.rfind(_OPEN)
    if start < 0:
        return None
    return text[start : end + len(_CLOSE)] if end >= 0 else text[start:]


def parse_tree(log: str) -> Element:
    """The log element. Raises XmlError."""
    cleaned = _NOT_IN_XML.sub("\ufffd", _STRAY_AMPERSAND.sub("&amp;", log))
    target = _BoundedTree()
    parser = ElementTree.XMLParser(target=target)  # noqa: S314 - no document type reaches it: no entities
    try:
        parser.feed(cleaned.encode())
        parser.close()
    except ElementTree.ParseError as error:
        truncated = not log.rstrip().endswith(_CLOSE)
        reason = "truncated" if truncated else "bad_xml"
        raise XmlError(
            reason, f"{'truncated' if truncated else 'invalid'} XML: {error}", target.root
        ) from None
    except _TooLarge:
        raise XmlError(
            "too_large", "the XML is deeper or larger than any output of nvidia-smi", None
        ) from None
    if target.root is None:
        raise XmlError("bad_xml", "the XML has no element", None)
    return target.root


class _TooLarge(Exception):
    pass


class _BoundedTree:
    """Builds a tree of limited depth and size. An element gets its text when it is closed, so a truncated
    element never contains half a number."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._builder = ElementTree.TreeBuilder()
        self._depth = 0
        self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > _MAX_DEPTH or self._elements > _MAX_ELEMENTS:
            raise _TooLarge
        element = self._builder.start(tag, attributes)
        if self.root is None:
            self.root = element

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag)

    def data(self, text: str) -> None:
        self._builder.data(text)

    def close(self) -> None:
        """Required by the parser; the tree is in `root`."""


TOOL = "nvidia-smi -q -x"


def _device_file(text: str) -> str | None:
    minor = cells.count(text)
    return None if minor is None else f"nvidia{minor}"


_CLOCKS = (
    ("graphics", "graphics_clock"),
    ("sm", "sm_clock"),
    ("memory", "mem_clock"),
    ("video", "video_clock"),
)
_THROTTLES = {
    **{name: name for name in THROTTLE_BITS.values()},
    "display_clocks_setting": "display_clock_setting",
}
_LINK = "pci/pci_gpu_link_info"

# Path below <gpu>, place in the model, and function that reads the text. The layout depends on the driver and
# not on the version of the DTD, so the first path with a value is used. module_power_readings is not read: it
# is that of the whole board.
_PATHS: tuple[tuple[str, str, cells.CellReader], ...] = (
    ("uuid", "uuid", cells.uuid),
    ("serial", "serial", identifier),
    ("pci/pci_bus_id", "pci_address", pci_address),
    ("minor_number", "device_name", _device_file),
    ("product_name", "model", words),
    ("product_architecture", "architecture", cells.architecture),
    ("vbios_version", "firmware_version", words),
    ("performance_state", "performance_state", cells.performance_state),
    ("persistence_mode", "persistence_mode", cells.flag),
    ("ecc_mode/current_ecc", "ecc_enabled", cells.flag),
    ("mig_mode/current_mig", "mig_enabled", cells.flag),
    ("utilization/gpu_util", "utilization_ratio", cells.ratio),
    ("utilization/memory_util", "memory_utilization_ratio", cells.ratio),
    ("utilization/encoder_util", "encoder_utilization_ratio", cells.ratio),
    ("utilization/decoder_util", "decoder_utilization_ratio", cells.ratio),
    ("utilization/jpeg_util", "jpeg_utilization_ratio", cells.ratio),
    ("utilization/ofa_util", "optical_flow_utilization_ratio", cells.ratio),
    ("fb_memory_usage/total", "memory_total_bytes", cells.memory),
    ("fb_memory_usage/used", "memory_used_bytes", cells.memory),
    ("fb_memory_usage/free", "memory_free_bytes", cells.memory),
    ("fb_memory_usage/reserved", "memory_reserved_bytes", cells.memory),
    ("bar1_memory_usage/total", "bar1_total_bytes", cells.memory),
    ("bar1_memory_usage/used", "bar1_used_bytes", cells.memory),
    ("temperature/gpu_temp", "temperature_celsius", cells.celsius),
    ("temperature/memory_temp", "sensors.memory", cells.celsius),
    ("temperature/gpu_temp_slow_threshold", "temperature_slowdown_celsius", cells.celsius),
    ("temperature/gpu_temp_max_threshold", "temperature_shutdown_celsius", cells.celsius),
    *(
        (f"{readings}/{draw}", "power_watts", cells.watts)
        for readings in ("gpu_power_readings", "power_readings")
        for draw in ("instant_power_draw", "average_power_draw", "power_draw")
    ),
    ("gpu_power_readings/current_power_limit", "power_limit_watts", cells.watts),
    ("power_readings/power_limit", "power_limit_watts", cells.watts),
    *(
        (f"{readings}/{kind}_power_limit", f"power_limit_{kind}_watts", cells.watts)
        for readings in ("gpu_power_readings", "power_readings")
        for kind in ("default", "min", "max")
    ),
    ("voltage/graphics_volt", "rails.graphics", cells.volts),
    ("fan_speed", "fans.0", cells.ratio),
    *(
        (f"{group}/{tag}", f"clocks.{domain}{kind}", cells.hertz)
        for domain, tag in _CLOCKS
        for group, kind in (("clocks", ""), ("max_clocks", ".max"))
    ),
    (f"{_LINK}/pcie_gen/current_link_gen", "pcie.generation", cells.count),
    (f"{_LINK}/pcie_gen/max_link_gen", "pcie.max_generation", cells.count),
    (f"{_LINK}/link_widths/current_link_width", "pcie.width", cells.lanes),
    (f"{_LINK}/link_widths/max_link_width", "pcie.max_width", cells.lanes),
    ("pci/replay_counter", "pcie.replays_total", cells.count),
    ("pci/tx_util", "pcie.transmit_bytes_per_second", cells.bytes_per_second),
    ("pci/rx_util", "pcie.receive_bytes_per_second", cells.bytes_per_second),
    *(
        (f"clocks_{word}_reasons/clocks_{word}_reason_{tag}", f"throttles.{reason}", cells.flag)
        for tag, reason in _THROTTLES.items()
        for word in ("event", "throttle")
    ),
    *(
        (f"ecc_errors/{span}/{path}", f"ecc.{severity}.{lasting}{block}", cells.count)
        for span, lasting in (("volatile", "volatile"), ("aggregate", "lifetime"))
        for severity, bits, word in (
            ("corrected", "single", "correctable"),
            ("uncorrected", "double", "uncorrectable"),
        )
        for path, block in (
            (f"{bits}_bit/total", ""),
            (f"dram_{word}", ".dram"),
            (f"{bits}_bit/device_memory", ".dram"),
            (f"sram_{word}", ".sram"),
            (f"sram_{word}_parity", ".sram_parity"),
            (f"sram_{word}_secded", ".sram_secded"),
            (f"{bits}_bit/register_file", ".register_file"),
            (f"{bits}_bit/l1_cache", ".l1_cache"),
            (f"{bits}_bit/l2_cache", ".l2_cache"),
            (f"{bits}_bit/texture_memory", ".texture"),
            (f"{bits}_bit/texture_shm", ".texture_shm"),
            (f"{bits}_bit/cbu", ".cbu"),
        )
    ),
    ("retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages.corrected", cells.count),
    ("retired_pages/double_bit_retirement/retired_count", "retired_pages.uncorrected", cells.count),
    ("remapped_rows/remapped_row_corr", "remapped_rows.correctable", cells.count),
    ("remapped_rows/remapped_row_unc", "remapped_rows.uncorrectable", cells.count),
    ("remapped_rows/remapped_row_pending", "remapped_rows.pending", cells.flag),
    ("remapped_rows/remapped_row_failure", "remapped_rows.failed", cells.flag),
)


def parse(text: str) -> ParseResult:
    log = find_log(text)
    if log is None:
        lost = cells.with_messages((), cells.MessageSet(cells.parse_messages(text)))
        return ParseResult(devices=lost, error=cells.missing_reading(text, TOOL))
    messages = cells.MessageSet(cells.parse_messages(text.replace(log, "")))  # outside the log
    broken: ParseError | None = None
    try:
        root = parse_tree(log)
    except XmlError as error:
        broken = ParseError(error.reason, str(error))
        if error.root is None:
            return ParseResult(error=broken)
        root = error.root
    rejected = Rejections()
    devices: list[Device] = []
    processes: list[Process] = []
    gpus = root.findall("gpu")
    # The log has no indices, but a complete log contains the GPUs in the order of their indices.
    complete = broken is None and cells.count(root.findtext("attached_gpus") or "") == len(gpus)
    for position, gpu in enumerate(gpus):
        draft = _draft(gpu, root, row=position + 1, index=position if complete else None)
        rejected.extend(draft.rejected)
        device = draft.device()
        devices.append(device)
        processes.extend(_processes(gpu, device, rejected))
    if devices:
        if broken is not None:
            rejected.add(broken.text, broken.reason)
        for message in messages:
            rejected.add(message.text, message.reason)
        return ParseResult(
            cells.with_messages(devices, messages), tuple(processes), rejected=rejected.listed()
        )
    return ParseResult(error=broken or ParseError("no_devices", "the log contains no GPU"))


def _draft(gpu: Element, root: Element, *, row: int, index: int | None) -> NvidiaDraft:
    draft = NvidiaDraft(row=row)
    if index is not None:
        draft.values["index"] = index
    for path, place, read in _PATHS:
        draft.take(place, gpu.findtext(path) or None, read, path)
    _take_temperature_margins(gpu, draft)
    draft.take("pci_address", gpu.get("id") or None, pci_address, "id")
    for tag in ("driver_version", "kmd_version"):
        draft.take("driver_version", root.findtext(tag) or None, words, tag)
    remapped = gpu.find("remapped_rows")
    if remapped is not None and len(remapped) == 0:
        draft.take("remapped_rows", remapped.text or None, lambda _: None, "remapped_rows")
    draft.take_recovery_action(gpu.findtext("gpu_recovery_action") or "")
    for tag, action in (("reset_required", "Reset"), ("drain_and_reset_recommended", "Drain and Reset")):
        if cells.flag(gpu.findtext(f"gpu_reset_status/{tag}") or ""):
            draft.recovery_action = draft.recovery_action or action
    _take_partitions(gpu, draft)
    return draft


def _take_temperature_margins(gpu: Element, draft: NvidiaDraft) -> None:
    """Cards since Ada have margins instead of limits in degrees."""
    now = draft.values.get("temperature_celsius")
    margin = cells.celsius(gpu.findtext("temperature/gpu_temp_tlimit") or "")
    for place, tag in (
        ("temperature_slowdown_celsius", "gpu_temp_slow_tlimit_threshold"),
        ("temperature_shutdown_celsius", "gpu_temp_max_tlimit_threshold"),
    ):
        threshold = cells.celsius(gpu.findtext(f"temperature/{tag}") or "")
        if place not in draft.values and now is not None and margin is not None and threshold is not None:
            draft.values[place] = limit_by_margin(now, margin, threshold)
            draft.absences.pop(place, None)


def _take_partitions(gpu: Element, draft: NvidiaDraft) -> None:
    """Add the MIG devices. Those of one GPU instance share its memory, which is reported for the first."""
    instances = set()
    for mig in gpu.findall("mig_devices/mig_device"):
        partition = _partition(mig, draft.id)
        if partition.gpu_instance_id is not None and partition.gpu_instance_id in instances:
            for place in ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes"):
                draft.absences[f"partitions.{partition.index}.{place}"] = AbsenceReason.SHARED
            partition = replace(
                partition, memory_total_bytes=None, memory_used_bytes=None, memory_free_bytes=None
            )
        instances.add(partition.gpu_instance_id)
        draft.partitions.append(partition)


def _partition(mig: Element, parent: str) -> Partition:
    """The log has no uuid of a MIG device. `-L` has it, under the same index."""
    index, instance, compute = (
        cells.count(mig.findtext(tag) or "") for tag in ("index", "gpu_instance_id", "compute_instance_id")
    )
    total, used, free = (
        cells.memory(mig.findtext(f"fb_memory_usage/{tag}") or "") for tag in ("total", "used", "free")
    )
    return Partition(
        id=f"{parent}/" + (f"mig{index}" if instance is None else f"gi{instance}/ci{compute}"),
        index=index,
        gpu_instance_id=instance,
        compute_instance_id=compute,
        memory_total_bytes=total,
        memory_used_bytes=used,
        memory_free_bytes=free,
        multiprocessors=cells.count(mig.findtext("device_attributes/shared/multiprocessor_count") or ""),
    )


def _processes(gpu: Element, device: Device, rejected: Rejections) -> Iterator[Process]:
    partitions = {(p.gpu_instance_id, p.compute_instance_id): p.id for p in device.partitions}
    for info in gpu.findall("processes/process_info"):
        values = {element.tag: element.text or "" for element in info}
        pid = cells.count(values.get("pid", ""))
        if not pid:
            rejected.add(f"pid: {values.get('pid', '')}", "not_a_row")
            continue
        kind = process_type(values.get("type", ""))
        memory = cells.memory(values.get("used_memory", ""))
        if kind is None:
            rejected.add(f"type: {values['type']}", "unreadable")
        if memory is None and cells.absence(values.get("used_memory", "")) is None:
            rejected.add(f"used_memory: {values['used_memory']}", "unreadable")
        gpu_instance = cells.count(values.get("gpu_instance_id", ""))
        compute_instance = cells.count(values.get("compute_instance_id", ""))
        yield Process(
            pid=pid,
            device=device.id,
            device_index=device.index,
            partition=None if gpu_instance is None else partitions.get((gpu_instance, compute_instance)),
            gpu_instance_id=gpu_instance,
            compute_instance_id=compute_instance,
            name=program_name(values.get("process_name", "")),
            type=kind and kind[0],
            mps=kind and kind[1],
            memory_bytes=memory,
        )
