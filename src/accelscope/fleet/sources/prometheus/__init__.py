"""Clusters that are read from a Prometheus-compatible store: Prometheus, Thanos, Mimir, VictoriaMetrics."""

from accelscope.fleet.sources.prometheus.source import PrometheusSource
from accelscope.fleet.sources.prometheus.stored_history import StoredHistory

__all__ = ["PrometheusSource", "StoredHistory"]
