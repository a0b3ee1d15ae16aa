"""Clusters that are read from a Prometheus-compatible store: Prometheus, Thanos, Mimir, VictoriaMetrics."""

from accelscope.fleet.sources.prometheus.past import StoredPast
from accelscope.fleet.sources.prometheus.source import PrometheusSource

__all__ = ["PrometheusSource", "StoredPast"]
