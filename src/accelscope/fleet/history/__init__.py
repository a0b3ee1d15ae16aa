"""What the fleet did lately: by the minute, bounded, and kept over a restart where it is asked for."""

from accelscope.fleet.history.history import History, HistoryLimits
from accelscope.fleet.history.rings import HistorySeries, Past, Scope, SummaryScope

__all__ = ["History", "HistoryLimits", "HistorySeries", "Past", "Scope", "SummaryScope"]
