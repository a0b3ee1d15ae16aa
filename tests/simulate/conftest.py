from tests.simulate.made_nodes import make_node, open_nvml, ready_node

__all__ = ["make_node", "open_nvml", "ready_node"]
