"""What is out of a device's or a pod's own habit."""

from accelscope.fleet.trends.trends import Trends

__all__ = ["Trends"]
