"""The whole of AccelScope on one machine without hardware: `make demo`.

with Demo(folder) as demo:
    demo.page_url, demo.agent_url, demo.prometheus_url

A simulated fleet of three clusters, the fleet that reads it, a real agent on a simulated node of it, and a
Prometheus where one is installed; and something happens there all the time.
"""

from tools.demo.children import ChildEnded
from tools.demo.running import Demo
from tools.demo.settings import BadSetting, Settings

__all__ = ["BadSetting", "ChildEnded", "Demo", "Settings"]
