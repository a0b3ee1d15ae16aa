"""Who asks, and what that one may see: tokens of a file, tokens that a cluster vouches for, or everybody."""

from accelscope.fleet.api.access.caller import EVERYBODY, Caller, Scope
from accelscope.fleet.api.access.control import AccessControl, check_exposure
from accelscope.fleet.api.access.tokens import MadeToken, TokensFile, make_token

__all__ = [
    "EVERYBODY",
    "AccessControl",
    "Caller",
    "MadeToken",
    "Scope",
    "TokensFile",
    "check_exposure",
    "make_token",
]
