"""`accelscope device-plugin`: offers a node's accelerators to its kubelet."""

import argparse
import os

from accelscope.cli.output import missing, refuse
from accelscope.config import ConfigError, add_arguments
from accelscope.deviceplugin.settings import PluginSettings, load_settings

DESCRIPTION = """\
Offers this node's accelerators to its kubelet, so that pods can ask for them:

    resources: {limits: {beta.furiosa.ai/npu: 1}}

Furiosa's cards by default; --vendor serves NVIDIA's, AMD's and Ascend's devices in the same way. It watches
their health, registers again when the kubelet restarts, and serves /metrics, /healthz and /readyz.

Every option is also an environment variable (--default-pe = DEFAULT_PE) and a key of the YAML file that
--config-file names:

    defaultPe: Single
    interval: 10
    disabledDevices:
      - {devName: npu1, nodeName: node-7}

With a file, the options that the file is for cannot be given beside it (see --config-file). A changed file
takes effect at once; pluginDir, socketName and resourceName need a restart, and the log says so."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "device-plugin",
        help="offer this node's accelerators to its kubelet",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, PluginSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.serve import ServeError  # noqa: PLC0415 - --help needs none of it

    given = vars(arguments)
    try:
        loaded = load_settings(given, os.environ)
        if (lacking := missing("device-plugin")) is not None:
            return refuse("device-plugin", lacking)
        from accelscope.deviceplugin import app, kubelet  # noqa: PLC0415 - needs the extra

        try:
            return app.run(loaded, given, os.environ)
        except kubelet.EndpointError as error:
            return refuse("device-plugin", error)
    except (ConfigError, ServeError) as error:
        return refuse("device-plugin", error)
