"""How much one server takes on, at most: what one caller may ask for, and what all of them may together."""

from dataclasses import dataclass

from accelscope.allowance import Rate

REQUESTS = Rate(per_second=50.0, burst=200)
FAILED_LOGINS = Rate(per_second=0.5, burst=20)  # of an address


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    requests: Rate = REQUESTS  # of a token; of an address where no token is needed
    concurrent_requests: int = 128
    streams: int = 256
    streams_of_caller: int = 16
    heartbeat_seconds: float = 15.0  # of a stream without news; its token is looked at anew as often
    connections: int = 1024
    unsent_bytes: int = 256 << 20  # of answers whose readers are slow, all of them together
    large_answers: int = 2  # made at the same time, in threads
    send_seconds: float = 60.0  # until an answer must be taken
    idle_seconds: float = 30.0  # of a connection between requests, and until its first request is there
    url_bytes: int = 8190
    header_bytes: int = 16384  # of one header field: a token with many groups is some KiB
    headers: int = 64


DEFAULT_LIMITS = ApiLimits()
