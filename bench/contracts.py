"""What the design promises of agent and fleet, and what was measured of it."""

from dataclasses import dataclass, field
from enum import Enum

from bench.tables import Table


class Contract(Enum):
    """What, contract, aim."""

    MEMORY = (
        "RSS, 8 devices x 4 processes, NVML, 110 pods of 20 KB watched, TLS, after the scrapes",
        "<= 32 MiB",
        "< 20 MiB",
    )
    SCRAPE = (
        "scrape p99, the first of a new page, new connection, HTTP",
        "<= 3 ms",
        "<= 1/10 of the best peer",
    )
    COLLECTION = ("CPU per collection beside the same NVML calls in C", "<= 3 x", "<= 1.5 x")
    TOOL = ("CPU per collection beside the bare runs of nvidia-smi", "<= 3 x", "<= 1.5 x")
    DEVICES = ("growth in devices, 1 to 64", "linear or better", "linear or better")
    PROCESSES = ("growth in processes, 10 to 5,000", "linear or better", "known ones free")
    ATTRIBUTION = ("attribution of known processes beside new ones", ">= 10 x cheaper", ">= 10 x cheaper")
    OTHER_RSS = ("RSS beside the agent of another checkout (--against)", "<= 1.1 x", "not above")
    OTHER_CPU = ("CPU beside the agent of another checkout (--against)", "<= 1.1 x", "not above")
    START = ("cold start to first page", "<= 1 s", "<= 0.3 s")
    FLEET_CPU = ("fleet: CPU of a refresh of 10,000 nodes x 8 devices, all changed", "<= 10 s", "<= 5 s")
    FLEET_REFRESH = ("fleet: time of such a refresh", "<= 20 s", "<= 10 s")
    FLEET_MEMORY = ("fleet: RSS with history", "<= 1 GiB", "<= 1 GiB")
    FLEET_ANSWERS = (
        "fleet: p99 of summary, nodes page, device search while refreshing",
        "<= 100 ms",
        "<= 20 ms",
    )


Verdict = tuple[str, bool, bool]  # measured, contract holds, aim is met


@dataclass(slots=True)
class Outcome:
    """What one subject of the benchmark found."""

    tables: list[Table] = field(default_factory=list)
    verdicts: dict[Contract, Verdict] = field(default_factory=dict)


def contract_table(verdicts: dict[Contract, Verdict]) -> Table:
    table = Table("Contracts", ("what", "contract", "aim", "measured", "holds?", "aim met?"))
    for contract in Contract:
        what, promised, aim = contract.value
        if contract in verdicts:
            measured, holds, met = verdicts[contract]
            table.add(what, promised, aim, measured, _answer(holds), _answer(met))
    return table


def _answer(truth: bool) -> str:
    return "yes" if truth else "NO"
