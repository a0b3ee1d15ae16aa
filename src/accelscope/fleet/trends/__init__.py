"""Anomalies: devices and pods that differ from their own last hour."""

from accelscope.fleet.trends.trends import Trends

__all__ = ["Trends"]
