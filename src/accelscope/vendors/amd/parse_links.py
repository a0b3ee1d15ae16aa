"""`amd-smi xgmi --json`: the links of every GPU to the others, with their state and traffic."""

from collections.abc import Mapping
from dataclasses import replace

from accelscope.model import Link, pci_address
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import quantities, trees
from accelscope.vendors.amd.trees import Tree

_STATES = {"U": True, "D": False}  # up, down; X is no link; SELF is the GPU itself
# A table of states in the order of a GPU's ports: nothing in the output says where a port leads.
_BY_PORT = "link_port_status"


def parse_links(text: str) -> Mapping[int, tuple[Link, ...]]:
    """By the index of the GPU. The tool prints a table of traffic and one of states: they are joined by the
    place of a link in them, which is that of the other GPU."""
    found: dict[int, list[Link]] = {}
    entries, _ = trees.gpus(text, Rejections(), leave_out=_BY_PORT)
    for entry in entries:
        index = quantities.count(quantities.text_of(entry["gpu"]) or "")
        if index is None:
            continue
        if "link_metrics" in entry:
            own = pci_address(quantities.text_of(entry.get("bdf")) or "")
            found[index] = _measured(trees.group(entry, "link_metrics"), own)
    for entry in entries:
        index = quantities.count(quantities.text_of(entry["gpu"]) or "")
        states = entry.get("link_status")
        if index is not None and isinstance(states, list):
            found[index] = _with_states(found.get(index, []), states)
    known = {index: tuple(filter(_is_known, links)) for index, links in found.items()}
    return {index: links for index, links in known.items() if links}


def _measured(metrics: Tree, own: str | None) -> list[Link]:
    """A GPU is listed among its own neighbours, with its own address."""
    listed = metrics.get("links")
    rate = quantities.bits_per_second(quantities.text_of(metrics.get("max_bandwidth")) or "")
    links = []
    for number, link in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(link, dict):
            continue
        read, written = (
            quantities.memory(quantities.text_of(link.get(key)) or "") for key in ("read", "write")
        )
        links.append(
            Link(
                "xgmi",
                number,
                remote=pci_address(quantities.text_of(link.get("bdf")) or ""),
                bytes_per_second=rate,
                transmit_bytes_total=written,
                receive_bytes_total=read,
            )
        )
    return [link for link in links if link.remote is None or link.remote != own]


def _is_known(link: Link) -> bool:
    """A neighbour without traffic and state may have no link at all."""
    traffic = (link.transmit_bytes_total, link.receive_bytes_total)
    return link.active is not None or any(amount is not None for amount in traffic)


def _with_states(links: list[Link], states: list[object]) -> list[Link]:
    active = {
        number: _STATES[state]
        for number, state in enumerate(states)
        if isinstance(state, str) and state in _STATES
    }
    if not links:
        return [Link("xgmi", number, active=up) for number, up in active.items()]
    return [replace(link, active=active.get(link.index)) for link in links]
