"""Pages of simulated nodes at one moment, served to whoever scrapes: the same each time, so that what came
through a store can be compared with what the agents themselves said."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.fleet.sources.prometheus.nodes import simulated_snapshots

from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, Exposition, Page
from accelscope.model import Snapshot

JOB = "accelscope"
# As discovery by way of Kubernetes labels agents: with names that workloads have too.
_TARGET_LABELS = {"namespace": "monitoring", "pod": "agent-x", "container": "agent"}


@dataclass(frozen=True)
class AgentPages:
    snapshots: Mapping[str, Snapshot]  # by node
    port: int

    def scrape_config(self, *, honor_labels: bool = True) -> dict[str, object]:
        """What is to stand beside job_name."""
        return {
            "honor_labels": honor_labels,
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{self.port}"],
                    "labels": {"__metrics_path__": f"/{node}", "instance": f"{node}:9400", **_TARGET_LABELS},
                }
                for node in self.snapshots
            ],
        }


@contextmanager
def agent_pages(*, nodes: int, cluster: int, taken_at: float) -> Iterator[AgentPages]:
    """Of the cluster of that number in a simulated fleet."""
    snapshots = simulated_snapshots(nodes, cluster=cluster, taken_at=taken_at)
    pages = {f"/{node}": Exposition().render(snapshot) for node, snapshot in snapshots.items()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(pages))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield AgentPages(snapshots, server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(pages: Mapping[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = pages[self.path]
            openmetrics = "openmetrics" in self.headers.get("Accept", "")
            body = page.openmetrics if openmetrics else page.text
            self.send_response(200)
            self.send_header("Content-Type", OPENMETRICS_TYPE if openmetrics else TEXT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Not in the tests' output."""

    return Handler
