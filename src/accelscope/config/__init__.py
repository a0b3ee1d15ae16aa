"""One declaration of a setting gives its flag, environment variable, YAML key and documentation.

Knows no other package but the file watch.
"""

from accelscope.config.declaration import ConfigError, setting
from accelscope.config.kind import BadValue, Kind, Node
from accelscope.config.lists import LABELS, PATTERNS, List
from accelscope.config.loading import Loaded, add_arguments, load
from accelscope.config.reference import reference
from accelscope.config.reload import Change, Reloader
from accelscope.config.scalars import (
    BOOLEAN,
    CONFIG_FILE,
    PATH,
    PORT,
    TEXT,
    Choice,
    Decimal,
    Duration,
    Text,
    WholeNumber,
)

__all__ = [
    "BOOLEAN",
    "CONFIG_FILE",
    "LABELS",
    "PATH",
    "PATTERNS",
    "PORT",
    "TEXT",
    "BadValue",
    "Change",
    "Choice",
    "ConfigError",
    "Decimal",
    "Duration",
    "Kind",
    "List",
    "Loaded",
    "Node",
    "Reloader",
    "Text",
    "WholeNumber",
    "add_arguments",
    "load",
    "reference",
    "setting",
]
