"""Whoever asks, and how far that one sees."""

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    ADMIN = "admin"  # may also have clusters read anew; includes read


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """To one limited to some clusters the others are not there: not in lists, not in sums, not found."""

    name: str
    scopes: frozenset[Scope]
    clusters: frozenset[str] | None = None  # None: all, also those that come later

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def sees(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters

    @property
    def view(self) -> str:
        """The same text for those to whom the same answer is given."""
        return "all" if self.clusters is None else repr(sorted(self.clusters))


EVERYBODY = Caller(name="everybody", scopes=frozenset(Scope))
