"""`accelscope device-plugin`: offers the accelerators of a node to its kubelet."""

import argparse
import os

from accelscope.cli.output import missing, refuse
from accelscope.config import ConfigError, add_arguments
from accelscope.deviceplugin.settings import PluginSettings, load_settings
from accelscope.vendors import declarations

_DESCRIPTION = """\
Offer the accelerators of this node to its kubelet, so that pods can request them:

    resources: {{limits: {{{resource}: 1}}}}

The default vendor is {default}; --vendor selects {others}.
The plugin watches the health of the devices, registers again when the kubelet restarts, and serves
/metrics, /healthz and /readyz.

Each option is also an environment variable (--default-pe is DEFAULT_PE) and a key of the YAML file given by
--config-file:

    defaultPe: Single
    interval: 10
    disabledDevices:
      - {{devName: npu1, nodeName: node-7}}

Options that are keys of the file cannot be combined with it (see --config-file). Changes of the file take
effect at once, except for pluginDir, socketName and resourceName, which require a restart."""


def _description() -> str:
    plugins = {vendor.title: vendor.plugin for vendor in declarations().values() if vendor.plugin}
    [(default, plugin)] = [(title, plugin) for title, plugin in plugins.items() if plugin.default]
    *others, last = [title for title in plugins if title != default]
    return _DESCRIPTION.format(
        default=default, others=f"{', '.join(others)} or {last}", resource=plugin.resource
    )


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "device-plugin",
        help="offer this node's accelerators to its kubelet",
        description=_description(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, PluginSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.serve import ServeError  # noqa: PLC0415 - not needed for --help

    given = vars(arguments)
    try:
        loaded = load_settings(given, os.environ)
        if (lacking := missing("device-plugin")) is not None:
            return refuse("device-plugin", lacking)
        from accelscope.deviceplugin import app, kubelet  # noqa: PLC0415 - needs the extra

        try:
            return app.run(loaded, given, os.environ)
        except kubelet.PluginSocketError as error:
            return refuse("device-plugin", error)
    except (ConfigError, ServeError) as error:
        return refuse("device-plugin", error)
