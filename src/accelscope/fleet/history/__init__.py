"""The recent history of the fleet: by the minute, bounded, and optionally saved over restarts."""

from accelscope.fleet.history.history import History, HistoryLimits
from accelscope.fleet.history.rings import HistorySeries, HistoryStore, Scope, SummaryScope

__all__ = ["History", "HistoryLimits", "HistorySeries", "HistoryStore", "Scope", "SummaryScope"]
