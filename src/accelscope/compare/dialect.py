"""Which dialect has the names of an exporter's page, and why it lacks some of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from accelscope.compare.page import Page
from accelscope.metrics import dialects
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.dialects import Dialect
from accelscope.vendors import dialect_declarations

NATIVE = frozenset(family.name for family in CATALOGUE)
# Names by which an exporter describes itself, not devices.
EXPORTERS_OWN = ("go_*", "process_*", "promhttp_*", "python_*", "*_created")


@dataclass(frozen=True)
class KnownDialect:
    dialect: Dialect
    exporter: str  # name of the other exporter's program, else that of the dialect

    @property
    def name(self) -> str:
        return self.dialect.name

    @property
    def offered(self) -> frozenset[str]:
        """Names without a setting that selects further ones."""
        return frozenset(family.name for family in self.dialect.families)

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(family.name for family in self.dialect.optional_families)

    @property
    def labels(self) -> frozenset[str]:
        sections = self.dialect.sections
        return frozenset(
            label.name for section in sections for label in (*section.labels.leading, *section.labels.others)
        )

    def prefix(self, page: Page) -> str:
        """The prefix of the dialect's names on a page; empty if it has no setting for one."""
        if not self.dialect.prefix_setting:
            return ""
        names = self.offered
        found = Counter(
            name.removesuffix(rest)
            for name in page.metrics
            for rest in _ends(name)
            if rest in names  # the longest one
        )
        return found.most_common(1)[0][0] if found else ""

    def reason(self, name: str, *, new_has_some: bool) -> str:
        """Why a name is on the exporter's page and not on ours."""
        if not new_has_some:
            return f"dialect {self.name} is not enabled"
        missing = self.dialect.missing
        if name in self.offered:
            unreported = f"dialect {self.name} has it, but no device of the new page reports it"
            return next((each.why for each in missing if name in each.patterns), unreported)
        if name in self.optional:
            return f"needs --{self.dialect.optional_setting.replace('_', '-')} with this field"
        unknown = f"dialect {self.name} has no such name"
        return next((each.why for each in missing if matches(name, each.patterns)), unknown)


def _ends(name: str) -> Iterable[str]:
    """The name, and what follows each underscore."""
    parts = name.split("_")
    return ("_".join(parts[i:]) for i in range(len(parts)))


def known(name: str) -> KnownDialect:
    [loaded] = dialects.load((name,))
    declared = dialect_declarations()[name]
    return KnownDialect(loaded, declared.exporter or name)


def detect(page: Page) -> KnownDialect | None:
    """The dialect with most of the page's names, then with most of its labels, then with the fewest other
    names."""
    labels = {name for metric in page.metrics.values() for name in metric.label_names}
    best: tuple[int, int, int] = (0, 0, 0)
    found = None
    for each in map(known, dialects.NAMES):
        names = each.offered | each.optional
        prefix = each.prefix(page)
        count = sum(name.removeprefix(prefix) in names for name in page.metrics if name.startswith(prefix))
        score = (count, len(labels & each.labels), -len(each.offered))
        if count and score > best:
            best, found = score, each
    return found


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
