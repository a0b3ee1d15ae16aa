"""The NVIDIA section of a description: from YAML to its spec."""

from dataclasses import replace

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, TEXT, Choice, Decimal, Text, WholeNumber
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.vendors.nvidia.simulated.cards import CARDS
from accelscope.vendors.nvidia.simulated.mig import MigDevice, cut
from accelscope.vendors.nvidia.simulated.spec import NvidiaDeviceSpec, NvidiaSpec

_VERSION = Text("a version such as '590.48.01'", r"\d+(\.\d+){1,2}")


def read_section(section: Section) -> NvidiaSpec:
    usual = NvidiaSpec()
    return NvidiaSpec(
        driver_version=section.take("driver_version", _VERSION, usual.driver_version),
        cuda_version=section.take("cuda_version", _VERSION, usual.cuda_version),
        call_cost_microseconds=section.take("call_cost_us", WholeNumber(0, 1_000_000), 0),
        pcie_window_milliseconds=section.take(
            "pcie_window_ms", WholeNumber(0, 10_000), usual.pcie_window_milliseconds
        ),
        process_utilization=section.take("process_utilization", BOOLEAN, default=True),
        tool=read_tool_cost(section),
        devices=read_devices(section, _device),
    )


def _device(section: Section) -> NvidiaDeviceSpec:
    card = CARDS[section.require("model", Choice(*CARDS))]
    memory = WholeNumber(card.reserved_mib + 1024, 1 << 20)
    card = replace(
        card,
        name=section.take("name", LINE, card.name),
        memory_mib=section.take("memory_mib", memory, card.memory_mib),
    )
    limits = Decimal(card.power.min_watts, card.power.max_watts)
    links = card.nvlink.links if card.nvlink else 0
    if not links and section.members("links_down"):
        raise section.error("links_down", f"{card.model} has no links")
    return NvidiaDeviceSpec(
        card=card,
        power_limit_watts=section.take("power_limit_watts", limits, card.power.default_watts),
        ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 30.0),
        links_down=section.take_each("links_down", WholeNumber(0, links - 1, "a link")),
        mig=_mig(section, card.model),
    )


def _mig(section: Section, model: str) -> tuple[MigDevice, ...] | None:
    members = section.members("mig")
    if not members:
        return None
    layout: list[tuple[str, tuple[str, ...]]] = []
    for i, member in enumerate(members):
        document = {"profile": member} if isinstance(member, str) else member
        entry = type(section)(document, section.path(f"mig[{i}]"), file=section.file)
        layout.append((entry.require("profile", TEXT), entry.take_each("compute", TEXT)))
        entry.finish()
    return cut(CARDS[model].mig_profiles, layout, section.path("mig"))
