"""Names by which nodes that are made from one another differ."""

from dataclasses import dataclass

from accelscope.simulate.pods import SimulatedPod

TAG_DIGITS = 6
MOST_NODES = 10**TAG_DIGITS
_LONG_ENOUGH = 12  # an id of fewer characters would lose what tells the devices of one node apart
# Spreads neighbours, so that nobody takes an id for a count. Prime to ten: each number has its own.
_SPREAD = 387_101


@dataclass(frozen=True, slots=True)
class Names:
    """Ids and names with the node's tag in them; without a tag, as they are."""

    tag: str = ""

    def id(self, text: str) -> str:
        """The tag takes the place of the last characters: six digits fit every vendor's alphabet."""
        if not self.tag:
            return text
        return text[:-TAG_DIGITS] + self.tag if len(text) > _LONG_ENOUGH else text + self.tag

    def pod(self, pod: SimulatedPod) -> str:
        """The part that a controller makes up, or a part of its own."""
        if not self.tag:
            return pod.name
        head = pod.name.rpartition("-")[0] if pod.owner is not None else pod.name
        return f"{head or pod.name}-{self.tag}"


PLAIN = Names()


def tag_of(number: int) -> str:
    """Of the node with that number in the whole fleet."""
    return f"{number * _SPREAD % MOST_NODES:0{TAG_DIGITS}}"
