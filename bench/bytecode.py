"""Bytecode of what is measured: an installed program has it, and so none of the measured ones may compile."""

import contextlib
import time

from accelscope.serve import Tls
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from bench.certificate import self_signed
from bench.children import Workshop, free_port, running
from bench.nodes import describe, make_node
from bench.peers import Peer
from bench.scraper import Scraper
from bench.sources import NotObtained

_SLOW_SECONDS = 30.0


def write_bytecode(workshop: Workshop) -> None:
    """Let each Python program run once. Bytecode goes to the workshop's folder."""
    node = make_node(workshop.folder / "bytecode-node", describe(1, []))
    certificate = self_signed(workshop.folder)
    tls = {"tls_certificate": str(certificate.file), "tls_key": str(certificate.key)}
    server = Tls(str(certificate.file), str(certificate.key))
    folder = workshop.folder / "bytecode-cluster"
    with SimulatedCluster(node, folder, tls=server, ca_file=certificate.file) as cluster:
        port = free_port()
        settings = {**node.agent_settings(), **tls, **cluster.agent_settings(), "collection_interval": "1s"}
        agent = workshop.agent("agent", port, settings)
        with running(agent):
            scraper = Scraper(port, tls=certificate.trust, compressed=False)
            agent.wait_for_page(scraper)
            _wait_for_sources(scraper)
    for peer in workshop.peers:
        _run_once(workshop, peer, node)


def _run_once(workshop: Workshop, peer: Peer, node: SimulatedNode) -> None:
    """One that cannot be had or does not run has nothing compiled; the table of exporters says so."""
    port = free_port()
    with (
        contextlib.suppress(NotObtained, RuntimeError),
        running(workshop.peer(peer, port, node.folder)) as child,
    ):
        child.wait_for_page(Scraper(port))


def _wait_for_sources(scraper: Scraper) -> None:
    """What speaks with an API server and a kubelet is loaded when they are first asked."""
    deadline = time.monotonic() + _SLOW_SECONDS
    while time.monotonic() < deadline:
        page = scraper.scrape().body
        if all(b'source_up{source="%s"} 1' % source in page for source in (b"pods", b"pod-resources")):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the agent has heard nothing of the simulated cluster after {_SLOW_SECONDS:g} s")
