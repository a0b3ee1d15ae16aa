"""The NVIDIA section of a description: from YAML to its spec."""

from dataclasses import replace

from accelscope.simulate.nvidia.cards import CARDS
from accelscope.simulate.nvidia.mig import MigDevice, cut
from accelscope.simulate.nvidia.spec import NvidiaDeviceSpec, NvidiaSpec
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.simulate.section import DescriptionError, Section, shown, unknown


def read_section(section: Section) -> NvidiaSpec:
    usual = NvidiaSpec()
    return NvidiaSpec(
        driver_version=_version(section, "driver_version", usual.driver_version),
        cuda_version=_version(section, "cuda_version", usual.cuda_version),
        call_cost_microseconds=section.integer("call_cost_us", 0, 0, 1_000_000),
        pcie_window_milliseconds=section.integer("pcie_window_ms", usual.pcie_window_milliseconds, 0, 10_000),
        process_utilization=section.flag("process_utilization", default=True),
        tool=read_tool_cost(section),
        devices=read_devices(section, _device),
    )


def _version(section: Section, key: str, default: str) -> str:
    return (
        section.optional_text(key, r"\d+(\.\d+){1,2}", "a version such as '590.48.01', in quotes") or default
    )


def _device(section: Section) -> NvidiaDeviceSpec:
    model = section.take("model")
    card = CARDS.get(str(model))
    if card is None:
        raise section.error("model", f"{unknown(model)}; allowed: {', '.join(CARDS)}")
    card = replace(
        card,
        name=section.text("name", card.name),
        memory_mib=section.integer("memory_mib", card.memory_mib, card.reserved_mib + 1024, 1 << 20),
    )
    limit = section.number(
        "power_limit_watts", card.power.default_watts, card.power.min_watts, card.power.max_watts
    )
    links = card.nvlink.links if card.nvlink else 0
    down = []
    for where, link in section.items("links_down"):
        if not isinstance(link, int) or not 0 <= link < links:
            raise DescriptionError(
                f"{where}: {card.model} has {links} links, numbered from 0; got {shown(link)}"
            )
        down.append(link)
    return NvidiaDeviceSpec(
        card=card,
        power_limit_watts=limit,
        ambient_celsius=section.number("ambient_celsius", 30.0, 0, 60),
        links_down=tuple(down),
        mig=_mig(section, card.model),
    )


def _mig(section: Section, model: str) -> tuple[MigDevice, ...] | None:
    where = section.path("mig")
    members = section.items("mig")
    if not members:
        return None
    layout: list[tuple[str, tuple[str, ...]]] = []
    for place, member in members:
        if isinstance(member, str):
            layout.append((member, ()))
            continue
        entry = Section(member, place)
        computes = tuple(str(name) for _, name in entry.items("compute"))
        layout.append((entry.text("profile", ""), computes))
        entry.finish()
    return cut(CARDS[model].mig_profiles, layout, where)
