"""What people ask a fleet, over and over."""

import itertools
import threading
import time
from contextlib import closing

from bench.fleet_process import Api

QUESTIONS = {
    "summary": "/api/v1/summary?group_by=model",
    "nodes page": "/api/v1/nodes?sort=-utilization_ratio&limit=100",
    "device search": "/api/v1/devices?temperature_celsius_min=60&sort=-power_watts&limit=100",
}
_PAUSE_SECONDS = 0.02  # who looks at a page does not ask without end

Answers = dict[str, list[float]]  # seconds until the last byte, by question


def ask_until(port: int, done: threading.Event) -> Answers:
    taken: Answers = {name: [] for name in QUESTIONS}
    with closing(Api(port)) as api:
        for name in itertools.cycle(QUESTIONS):
            if done.is_set():
                break
            taken[name].append(api.ask(QUESTIONS[name])[0])
            time.sleep(_PAUSE_SECONDS)
    return taken
