"""`accelscope simulate fleet` and `fleet-fault`: clusters without hardware."""

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelscope.config import BadValue, Duration, Kind, WholeNumber, argument
from accelscope.simulate import DescriptionError
from accelscope.simulate.fleet.description import DESCRIPTION, load_fleet, made_fleet
from accelscope.simulate.fleet.faults import (
    DEVICE_FAULTS,
    FleetFault,
    Trouble,
    read_faults,
    read_trouble,
    write_faults,
)
from accelscope.simulate.fleet.spec import FleetSpec
from accelscope.simulate.section import Options
from accelscope.simulate.vendor import simulated_names

if TYPE_CHECKING:
    from accelscope.simulate.fleet.fleet import SimulatedFleet

_FLEET = """\
Answer for the API servers of several clusters, each with its nodes, their agents behind the pod proxy, and
what collectors write on Node objects. DIR gets clusters.yaml, which `accelscope fleet` is pointed at. A FILE
says all that the options say, but for --port.
"""
_FLEET_EXAMPLES = """\
examples:
  accelscope simulate fleet /tmp/fleet --clusters 3 --nodes 40 &
  accelscope fleet --clusters-file /tmp/fleet/clusters.yaml
  accelscope simulate fleet /tmp/fleet mine.yaml          from a description of your own
  accelscope simulate fleet-fault /tmp/fleet hot --cluster berlin-1 --node nvidia-h100x8-0007 --device 2
"""


class _ErrorCode(Kind[int]):
    """Vendors write theirs with 0x."""

    allowed = "a number such as 31 or 0x80e01801"

    def parse(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise BadValue from None


ERROR_CODE = argument(_ErrorCode())
_COUNT = argument(WholeNumber(1))
_DEVICE = argument(WholeNumber(0))
_LAST_PORT = 65535
_MADE_BY = {  # without a FILE
    "clusters": "--clusters",
    "nodes": "--nodes",
    "kinds": "--kind",
    "interval_seconds": "--interval",
    "seed": "--seed",
}
_MADE: dict[str, Any] = {"clusters": 3, "nodes": 40}
_FAULT_KEYS = ("cluster", "node", "vendor", "device", "code", "process", "seconds", "schema")


def add_parsers(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    fleet = actions.add_parser(
        "fleet",
        help="clusters of nodes, answered by one process",
        description=_FLEET,
        epilog=_FLEET_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fleet.add_argument("folder", metavar="DIR", type=Path, help="gets clusters.yaml, tokens and faults.yaml")
    fleet.add_argument("description", metavar="FILE", nargs="?", type=Path, help="a description of the fleet")
    fleet.add_argument("--clusters", type=_COUNT, metavar="N", help="how many (default 3)")
    fleet.add_argument("--nodes", type=_COUNT, metavar="N", help="of each cluster (default 40)")
    fleet.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        metavar="NODE",
        help="a ready-made node or a YAML file; may be repeated (default: a mix of vendors)",
    )
    fleet.add_argument(
        "--interval",
        dest="interval_seconds",
        type=argument(Duration(0.1, 86_400)),
        metavar="DURATION",
        help="between readings of an agent: who asks N times as often finds 1/N changed (default 10s)",
    )
    fleet.add_argument("--seed", type=_COUNT, metavar="N", help="what everything is derived from (default 1)")
    fleet.add_argument(
        "--port",
        type=argument(WholeNumber(1, _LAST_PORT)),
        metavar="PORT",
        help="of the first API server, the others follow (default: free ones)",
    )
    _add_fault_parser(actions)


def _add_fault_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    meanings: dict[str, str] = {kind: kind.meaning for kind in FleetFault}
    meanings |= {kind: kind.meaning for kind in DEVICE_FAULTS}
    width = max(map(len, meanings))
    kinds = "\n".join(f"  {kind:<{width}}  {meaning}" for kind, meaning in meanings.items())
    fault = actions.add_parser(
        "fleet-fault",
        help="break something of a fleet that runs, or mend it",
        description="Set a fault of a simulated fleet, or end it with --clear. Without a kind: what is set.",
        epilog=f"kinds:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fault.add_argument("folder", metavar="DIR", type=Path, help="the fleet's folder")
    fault.add_argument("kind", metavar="KIND", nargs="?", help="see below")
    fault.add_argument("--cluster", metavar="ID", help="whose")
    fault.add_argument("--node", metavar="NAME", help="which node; none: the cluster's API server")
    fault.add_argument(
        "--vendor", choices=simulated_names(), help="on a node of several vendors: whose device"
    )
    fault.add_argument("--device", type=_DEVICE, metavar="N", help="for faults of one device: which, from 0")
    fault.add_argument("--code", type=ERROR_CODE, metavar="N", help="for errors that have a code: which")
    fault.add_argument("--process", metavar="NAME", help="for idle: processes of this name")
    fault.add_argument(
        "--seconds",
        type=argument(Duration(0, 3600)),
        metavar="DURATION",
        help="for what is slow: by how much",
    )
    fault.add_argument("--schema", metavar="VERSION", help="for agent_schema: which")
    fault.add_argument("--clear", action="store_true", help="end it; without a kind, end all that were set")


def run_fleet(arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 - the other actions need none of it

    from accelscope.simulate.fleet.fleet import SimulatedFleet  # noqa: PLC0415 - needs the extra

    spec = _spec(arguments)
    if arguments.port is not None and arguments.port + len(spec.clusters) - 1 > _LAST_PORT:
        raise DescriptionError(f"--port {arguments.port}: too high for {len(spec.clusters)} API servers")
    fleet = SimulatedFleet(spec, arguments.folder, first_port=arguments.port, progress=_tell)
    asyncio.run(_serve(fleet))
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _spec(arguments: argparse.Namespace) -> FleetSpec:
    given = {key: value for key in _MADE_BY if (value := getattr(arguments, key)) is not None}
    if arguments.description is None:
        return made_fleet(**{**_MADE, **given})
    if given:
        raise DescriptionError(f"only without a FILE: {', '.join(_MADE_BY[key] for key in given)}")
    return load_fleet(arguments.description)


async def _serve(fleet: "SimulatedFleet") -> None:
    import asyncio  # noqa: PLC0415 - as above

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with fleet.running():
        for cluster_id, cluster in fleet.clusters.items():
            print(f"{cluster_id}: {len(cluster.nodes)} nodes at {fleet.urls[cluster_id]}")
        print(f"\nA fleet sees them with:\n\n  accelscope fleet --clusters-file {fleet.clusters_file}\n")
        print("moving; Ctrl-C ends it", flush=True)
        await stop.wait()


def run_fault(arguments: argparse.Namespace) -> int:
    nodes = load_fleet(arguments.folder / DESCRIPTION).nodes()
    current = read_faults(arguments.folder, nodes)
    if arguments.kind is None:
        left = () if arguments.clear else current
    else:
        given = {key: getattr(arguments, key) for key in _FAULT_KEYS if getattr(arguments, key) is not None}
        section = Options({"kind": arguments.kind, **given})
        wanted = read_trouble(section, nodes)
        section.finish()
        others = tuple(trouble for trouble in current if not trouble.same_as(wanted))
        if arguments.clear and len(others) == len(current):
            raise DescriptionError(f"{arguments.kind} is not set; set: {_named(current)}")
        left = others if arguments.clear else (*others, wanted)
    if left != current:
        write_faults(arguments.folder, left)
    print(f"set: {_named(left)}")
    return 0


def _named(troubles: tuple[Trouble, ...]) -> str:
    return ", ".join(map(_name, troubles)) or "nothing"


def _name(trouble: Trouble) -> str:
    words = [trouble.cluster, trouble.node or "", trouble.process or ""]
    if trouble.device is not None:
        words.append(f"device {trouble.device}")
    return f"{trouble.kind} of {' '.join(word for word in words if word)}"


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {"fleet": run_fleet, "fleet-fault": run_fault}
