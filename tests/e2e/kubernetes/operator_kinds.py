"""prometheus-operator's kinds of objects. Nobody acts upon them here: the API server checks them."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.kubernetes import binaries
from tests.e2e.kubernetes.cluster import Cluster

_MODULE = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
_SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
_FILES = "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml"
_KINDS = ("servicemonitors", "podmonitors", "prometheusrules")


@contextmanager
def monitor_kinds(cluster: Cluster) -> Iterator[None]:
    """ServiceMonitor, PodMonitor and PrometheusRule, for as long."""
    module = binaries.module_files(*_MODULE, _SUM)
    files = [f"--filename={module / _FILES.format(kind)}" for kind in _KINDS]
    cluster.kubectl("apply", "--server-side", *files)
    try:
        for kind in _KINDS:
            cluster.wait_for(f"crd/{kind}.monitoring.coreos.com", "condition=Established")
        yield
    finally:
        cluster.kubectl("delete", *files)
