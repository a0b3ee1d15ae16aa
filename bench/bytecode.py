"""Bytecode of what is measured: an installed program has it, and so none of the measured ones may compile."""

from bench.certificate import self_signed
from bench.children import Workshop, free_port, running
from bench.nodes import describe, make_node
from bench.scraper import Scraper


def write_bytecode(workshop: Workshop) -> None:
    """Let each Python program run once. Bytecode goes to the workshop's folder."""
    node = make_node(workshop.folder / "bytecode-node", describe(1, []))
    certificate = self_signed(workshop.folder)
    tls = {"tls_certificate": str(certificate.file), "tls_key": str(certificate.key)}
    port = free_port()
    agent = workshop.agent("agent", port, {**node.agent_settings(), **tls})
    with running(agent):
        agent.wait_for_page(Scraper(port, tls=certificate.trust))
    port = free_port()
    peer = workshop.nvitop_exporter(port, node.folder, interval_seconds=1.0)
    with running(peer):
        peer.wait_for_page(Scraper(port))
