"""VictoriaMetrics, a single one that scrapes by itself."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tests.e2e.stores.program import running
from tests.ports import free_port


@contextmanager
def victoria_metrics(folder: Path, jobs: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Its URL. `jobs`: what stands beside job_name."""
    if shutil.which("victoria-metrics") is None:
        pytest.skip("victoria-metrics is not installed (make e2e installs it)")
    folder.mkdir(parents=True)
    config = folder / "scrape.yml"
    documents = [{"job_name": name, **scrape} for name, scrape in jobs.items()]
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": documents}))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={address}",
        f"-promscrape.config={config}",
        "-memory.allowedBytes=256MB",
    ]
    with running("victoria-metrics", command, f"http://{address}/health", folder):
        yield f"http://{address}"
