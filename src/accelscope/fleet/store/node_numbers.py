"""Nodes of all clusters as small numbers, which index arrays and are given again when a node has left."""


class NodeNumbers:
    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._free: list[int] = []

    def find(self, cluster: str, node: str) -> int | None:
        return self._numbers.get((cluster, node))

    def give(self, cluster: str, node: str) -> int:
        key = cluster, node
        number = self._numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key] = number
        return number

    def take_back(self, cluster: str, node: str) -> None:
        self._free.append(self._numbers.pop((cluster, node)))
