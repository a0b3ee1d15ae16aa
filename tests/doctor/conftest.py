from tests.doctor.node_folder import node

__all__ = ["node"]
