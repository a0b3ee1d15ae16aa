"""What goes wrong with the real cluster, as one line that says what to do, and what a program said."""

from collections.abc import Sequence


class ClusterError(Exception):
    """The cluster, or something that it is made of, cannot be had."""


class CommandFailed(ClusterError):
    """A program that ended with an error; `stderr` is what it said."""

    def __init__(self, command: Sequence[str], status: int | None, stderr: str) -> None:
        self.command = tuple(command)
        self.status = status  # None: it was given up
        self.stderr = stderr
        ended = "did not end in time" if status is None else f"ended with {status}"
        super().__init__(f"{' '.join(self.command)} {ended}: {stderr.strip() or 'it said nothing'}")


class MachineUnfit(ClusterError):
    """This machine cannot run a cluster. The text names everything that is missing."""
