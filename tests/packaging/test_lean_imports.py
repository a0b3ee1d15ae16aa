"""The agent's process stays small because of what it does not import.

Each module of its packages is imported in one fresh interpreter, and what came along by itself or through the
standard library is compared with what must not. Importing every module is stricter than running: what a
function imports when it needs it does not show here.
"""

import subprocess
import sys

PACKAGES = [
    "agent",
    "attribution",
    "config",
    "kube",
    "metrics",
    "model",
    "parsing",
    "serve",
    "sinks",
    "vendors",
]

# Parts of a vendor that other commands load by name: the agent never does.
OTHER_COMMANDS = ("capture", "doctor", "simulated")

# Each brings megabytes, or a second way of doing what the agent does already.
BANNED = {
    "asyncio",
    "concurrent.futures.process",
    "email",
    "http.client",
    "http.server",
    "multiprocessing",
    "nvitop",
    "prometheus_client",
    "psutil",
    "unittest",
    "urllib.request",
}

IMPORT_ALL = f"""
import importlib, pkgutil, sys
others = set({OTHER_COMMANDS})
for name in sys.argv[1:]:
    package = importlib.import_module("accelscope." + name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
        if not module.name.endswith(".__main__") and not set(module.name.split(".")) & others:
            importlib.import_module(module.name)
print("\\n".join(sys.modules))
"""


def imported(*packages: str) -> set[str]:
    done = subprocess.run(
        # -I and no coverage: only what the packages themselves ask for is to be seen.
        [sys.executable, "-I", "-c", IMPORT_ALL, *packages],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_no_heavy_module_comes_along() -> None:
    found = imported(*PACKAGES)
    assert {f"accelscope.{package}" for package in PACKAGES} <= found
    assert found & BANNED == set()


def test_an_agent_outside_kubernetes_loads_no_client_of_an_api_server() -> None:
    program = 'import sys, accelscope.agent.app; print("\\n".join(sys.modules))'
    found = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=60, env={}
    ).stdout.split()
    assert "accelscope.attribution.attributor" in found
    assert not {"accelscope.attribution.watches", "accelscope.kube.client", "accelscope.kube.listwatch"} & {
        *found
    }
