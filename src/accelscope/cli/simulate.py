"""`accelscope simulate`: nodes without hardware."""

import argparse
import itertools
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelscope.cli.output import missing, refuse
from accelscope.config import BadValue, Choice, Duration, ValueKind, WholeNumber, argument
from accelscope.config.settings import key_name
from accelscope.simulate import (
    CompileError,
    DescriptionError,
    Fault,
    FaultKind,
    FolderInUse,
    SimulatedNode,
    load_node,
    ready_made,
)
from accelscope.simulate.fleet.description import DESCRIPTION, FleetSpec, load_fleet, made_fleet
from accelscope.simulate.fleet.faults import (
    NODE_FAULTS,
    FleetFault,
    FleetFaultKind,
    read_faults,
    read_fleet_fault,
    write_faults,
)
from accelscope.simulate.fleet.recording import RecordingError
from accelscope.simulate.spec import Options
from accelscope.simulate.vendor import simulated_names

if TYPE_CHECKING:
    from accelscope.simulate.fleet.fleet import SimulatedFleet


# --- accelscope simulate fleet and fleet-fault

_FLEET = """\
Run simulated API servers of several clusters, with their nodes, their agents behind the pod proxy, and the
annotations of collectors on Node objects. Use DIR/clusters.yaml as --clusters-file of `accelscope fleet`.
FILE replaces all options except --port.
"""
_FLEET_EXAMPLES = """\
examples:
  accelscope simulate fleet /tmp/fleet --clusters 3 --nodes 40 &
  accelscope fleet --clusters-file /tmp/fleet/clusters.yaml
  accelscope simulate fleet /tmp/fleet mine.yaml          from your own description
  accelscope simulate fleet-fault /tmp/fleet hot --cluster berlin-1 --node nvidia-h100x8-0007 --device 2
"""


class _ErrorCode(ValueKind[int]):
    """Decimal, or hexadecimal with 0x."""

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
        help="run simulated clusters in one process",
        description=_FLEET,
        epilog=_FLEET_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fleet.add_argument(
        "folder", metavar="DIR", type=Path, help="folder for clusters.yaml, tokens and faults.yaml"
    )
    fleet.add_argument("description", metavar="FILE", nargs="?", type=Path, help="description of the fleet")
    fleet.add_argument("--clusters", type=_COUNT, metavar="N", help="number of clusters (default 3)")
    fleet.add_argument("--nodes", type=_COUNT, metavar="N", help="nodes per cluster (default 40)")
    fleet.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        metavar="NODE",
        help="built-in node or YAML file; can be repeated (default: a mix of vendors)",
    )
    fleet.add_argument(
        "--interval",
        dest="interval_seconds",
        type=argument(Duration(0.1, 86_400)),
        metavar="DURATION",
        help="collection interval of the agents (default 10s)",
    )
    fleet.add_argument("--seed", type=_COUNT, metavar="N", help="seed of the random numbers (default 1)")
    fleet.add_argument(
        "--port",
        type=argument(WholeNumber(1, _LAST_PORT)),
        metavar="PORT",
        help="port of the first API server; the others use the next ports (default: free ports)",
    )
    _add_fault_parser(actions)


def _add_fault_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    meanings: dict[str, str] = {kind: kind.meaning for kind in FleetFaultKind}
    meanings |= {kind: kind.meaning for kind in NODE_FAULTS}
    width = max(map(len, meanings))
    kinds = "\n".join(f"  {kind:<{width}}  {meaning}" for kind, meaning in meanings.items())
    fault = actions.add_parser(
        "fleet-fault",
        help="set or clear a fault of a running fleet",
        description="Set or clear a fault of a simulated fleet. Without KIND, list the current faults.",
        epilog=f"kinds:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fault.add_argument("folder", metavar="DIR", type=Path, help="folder of the fleet")
    fault.add_argument("kind", metavar="KIND", nargs="?", help="see below")
    fault.add_argument("--cluster", metavar="ID", help="cluster with the fault")
    fault.add_argument("--node", metavar="NAME", help="node with the fault (default: the API server)")
    fault.add_argument(
        "--vendor", choices=simulated_names(), help="vendor of the device, on a node with several vendors"
    )
    fault.add_argument("--device", type=_DEVICE, metavar="N", help="index of the device, from 0")
    fault.add_argument("--code", type=ERROR_CODE, metavar="N", help="error code")
    fault.add_argument("--process", metavar="NAME", help="for idle: name of the processes")
    fault.add_argument(
        "--seconds",
        type=argument(Duration(0, 3600)),
        metavar="DURATION",
        help="delay, for slow faults",
    )
    fault.add_argument("--schema", metavar="VERSION", help="for agent_schema: schema version")
    fault.add_argument("--clear", action="store_true", help="clear the fault; without KIND, clear all faults")


def run_fleet(arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 - the other actions need none of it

    from accelscope.simulate.fleet.fleet import SimulatedFleet  # noqa: PLC0415 - needs the extra

    spec = _spec(arguments)
    if arguments.port is not None and arguments.port + len(spec.clusters) - 1 > _LAST_PORT:
        raise DescriptionError(f"--port {arguments.port}: too high for {len(spec.clusters)} API servers")
    fleet = SimulatedFleet(spec, arguments.folder, first_port=arguments.port, progress=_print_progress)
    asyncio.run(_serve(fleet))
    return 0


def _print_progress(line: str) -> None:
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
        print(f"\nTo read it with a fleet:\n\n  accelscope fleet --clusters-file {fleet.clusters_file}\n")
        print("moving; press Ctrl-C to end", flush=True)
        await stop.wait()


def run_fault(arguments: argparse.Namespace) -> int:
    nodes = load_fleet(arguments.folder / DESCRIPTION).nodes()
    current = read_faults(arguments.folder, nodes)
    if arguments.kind is None:
        left = () if arguments.clear else current
    else:
        given = {key: getattr(arguments, key) for key in _FAULT_KEYS if getattr(arguments, key) is not None}
        section = Options({"kind": arguments.kind, **given})
        wanted = read_fleet_fault(section, nodes)
        section.finish()
        others = tuple(trouble for trouble in current if not trouble.same_as(wanted))
        if arguments.clear and len(others) == len(current):
            raise DescriptionError(f"{arguments.kind} is not set; set: {_named(current)}")
        left = others if arguments.clear else (*others, wanted)
    if left != current:
        write_faults(arguments.folder, left)
    print(f"set: {_named(left)}")
    return 0


def _named(troubles: tuple[FleetFault, ...]) -> str:
    return ", ".join(map(_name, troubles)) or "nothing"


def _name(trouble: FleetFault) -> str:
    words = [trouble.cluster, trouble.node or "", trouble.process or ""]
    if trouble.device is not None:
        words.append(f"device {trouble.device}")
    return f"{trouble.kind} of {' '.join(word for word in words if word)}"


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {"fleet": run_fleet, "fleet-fault": run_fault}


_DESCRIPTION = """\
Create a folder that simulates a node with accelerators of one or several vendors: libraries, tools, /proc,
/sys and /dev, with a changing load. If the node runs pods, an API server and a kubelet socket are simulated
too. Use the options or the agent.yaml that the command prints to run the agent on it.
"""
_EXAMPLES = """\
examples:
  accelscope simulate list                             list the built-in nodes
  accelscope simulate run nvidia-h100x8 /tmp/node      create a node and update it continuously
  accelscope simulate fault /tmp/node hang --device 3  set a fault
  accelscope simulate fault /tmp/node hang --device 3 --clear     clear it
  accelscope simulate show nvidia-h100x8 > mine.yaml   start your own description
  accelscope simulate build mine.yaml /tmp/mine --at 60   create a node without updates
  accelscope simulate fleet /tmp/fleet --clusters 3 --nodes 40    simulate clusters
"""
_FAULT_NOTE = """\
A vendor supports only some of these faults. The error for an unsupported fault, code, tool or error name
lists the supported ones.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "simulate",
        help="create nodes and clusters with simulated accelerators",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the built-in nodes")
    listing.add_argument("--vendor", choices=simulated_names(), help="only nodes with devices of this vendor")
    show = actions.add_parser("show", help="print the description of a node")
    show.add_argument("node", metavar="NODE", help="built-in node or YAML file")
    build = _node_parser(actions, "build", "make the folder, showing one instant")
    build.add_argument(
        "--at", type=argument(Duration()), default=0.0, metavar="DURATION", help="simulated time (default 0)"
    )
    run_parser = _node_parser(actions, "run", "make the folder and keep it moving until interrupted")
    run_parser.add_argument(
        "--period",
        type=argument(Duration(0.05)),
        default=1.0,
        metavar="DURATION",
        help="time between updates (default 1s)",
    )
    run_parser.add_argument(
        "--no-kubernetes", action="store_true", help="do not simulate the API server and the kubelet's socket"
    )
    _add_fault_parser_simulate(actions)
    add_parsers(actions)


def _node_parser(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, meaning: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=meaning)
    parser.add_argument("node", metavar="NODE", help="built-in node or YAML file")
    parser.add_argument("folder", metavar="DIR", type=Path, help="new folder, or folder of a simulated node")
    return parser


def _add_fault_parser_simulate(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    width = max(map(len, FaultKind))
    kinds = "\n".join(f"  {kind:<{width}}  {kind.meaning}" for kind in FaultKind)
    parser = actions.add_parser(
        "fault",
        help="set or clear a fault of a node",
        description="Set or clear a fault of a simulated node. Without KIND, list the current faults.",
        epilog=f"kinds:\n{kinds}\n\n{_FAULT_NOTE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of the node")
    parser.add_argument(
        "kind", metavar="KIND", nargs="?", type=argument(Choice(*FaultKind)), help="see below"
    )
    parser.add_argument("--vendor", choices=simulated_names(), help="vendor, on a node with several vendors")
    parser.add_argument(
        "--device", type=argument(WholeNumber(0)), metavar="N", help="index of the device, from 0"
    )
    parser.add_argument("--code", type=ERROR_CODE, metavar="N", help="error code")
    parser.add_argument("--tool", metavar="NAME", help="tool, for a vendor with several tools")
    parser.add_argument("--error", metavar="NAME", help="for tool_error: name of the error")
    parser.add_argument("--cause", metavar="NAME", help="for throttled: why the device throttles")
    parser.add_argument(
        "--clear", action="store_true", help="clear the fault; without KIND, clear all faults"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 2 for invalid arguments or descriptions, 1 for other errors."""
    actions = {"list": _list, "show": _show, "build": _build, "run": _run, "fault": _fault}
    if arguments.action in ACTIONS and (lacking := missing("fleet")):
        return refuse("simulate", lacking)
    try:
        return {**actions, **ACTIONS}[arguments.action](arguments)
    except DescriptionError as error:
        return refuse("simulate", error)
    except BrokenPipeError:  # the reader of the output is gone; main handles it
        raise
    except OSError as error:
        return _failed(": ".join(str(word) for word in (error.filename, error.strerror or error) if word))
    except (FolderInUse, CompileError, RecordingError) as error:
        return _failed(error)


def _failed(reason: object) -> int:
    print(f"accelscope simulate: {reason}", file=sys.stderr)
    return 1


def _list(arguments: argparse.Namespace) -> int:
    rows = []
    for name in ready_made(arguments.vendor):
        spec = load_node(name)
        devices = " + ".join(f"{own.device_count} {vendor}" for vendor, own in spec.vendors.items())
        rows.append((name, devices, _summary(spec.text)))
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:2]]
    for name, devices, text in rows:
        print(f"{name:<{widths[0]}}  {devices:<{widths[1]}}  {text}")
    return 0


def _summary(description: str) -> str:
    """The first sentence of the comment that a description begins with."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), description.splitlines())
    sentence, dot, _ = " ".join(line.lstrip("# ") for line in comment).partition(".")
    return sentence + dot


def _show(arguments: argparse.Namespace) -> int:
    print(load_node(arguments.node).text, end="")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    node = SimulatedNode(load_node(arguments.node), arguments.folder)
    node.build(arguments.at)
    _print_directions(node, node.agent_settings())
    return 0


def _run(arguments: argparse.Namespace) -> int:
    node = SimulatedNode(load_node(arguments.node), arguments.folder)
    node.build()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    settings = node.agent_settings()
    with ExitStack() as stack:
        if node.pods and not arguments.no_kubernetes:
            from accelscope.simulate.kubernetes import SimulatedCluster  # noqa: PLC0415 - brings ssl

            cluster = stack.enter_context(SimulatedCluster(node, node.folder / "kubernetes"))
            settings |= cluster.agent_settings()
        _print_directions(node, settings)
        print("moving; press Ctrl-C to end", flush=True)
        node.run(stop, arguments.period)
    return 0


def _print_directions(node: SimulatedNode, settings: Mapping[str, str]) -> None:
    """Print how to read the node, and write a configuration file of the agent."""
    file = node.folder / "agent.yaml"
    file.write_text("".join(f"{key_name(name)}: {json.dumps(value)}\n" for name, value in settings.items()))
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in settings.items()]
    print(f"{node.spec.name} is in {node.folder}. To read it with an agent:\n")
    print("  accelscope agent \\\n    " + " \\\n    ".join(flags) + "\n")
    print(f"or with --config-file {file}, which contains the same settings;")
    print(f"for other tools set LD_LIBRARY_PATH={node.folder}/lib PATH={node.folder}/bin:$PATH", flush=True)


def _fault(arguments: argparse.Namespace) -> int:
    node = SimulatedNode.open(arguments.folder)
    current = node.faults()
    if arguments.kind is None:
        _change(node, () if arguments.clear else current, changed=arguments.clear)
        return 0
    keys = ("kind", "vendor", "device", "code", "tool", "error", "cause")
    wanted = node.checked_fault({key: getattr(arguments, key) for key in keys})
    others = tuple(fault for fault in current if not fault.same_as(wanted))
    if arguments.clear and len(others) == len(current):
        raise DescriptionError(f"{arguments.kind} is not set; set: {_named_simulate(current)}")
    _change(node, others if arguments.clear else (*others, wanted), changed=True)
    return 0


def _change(node: SimulatedNode, faults: Iterable[Fault], *, changed: bool) -> None:
    faults = tuple(faults)
    if changed and node.is_running():
        node.write_faults(faults)  # the process that runs the node reads it
    elif changed:
        node.set_faults(faults)
    print(f"set: {_named_simulate(faults)}")


def _named_simulate(faults: Iterable[Fault]) -> str:
    return ", ".join(map(_name_simulate, faults)) or "nothing"


def _name_simulate(fault: Fault) -> str:
    parts = [word for word in (fault.vendor, fault.tool) if word]
    if fault.device is not None:
        parts.append(f"device {fault.device}")
    return f"{fault.kind} of {' '.join(parts)}" if parts else str(fault.kind)
