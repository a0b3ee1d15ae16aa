"""Which of several forms a client likes best: Accept and Accept-Encoding with q-values (RFC 9110, 12)."""

from collections.abc import Collection, Iterator, Sequence


def accepts(header: str | None, candidates: Sequence[str]) -> str | None:
    """The media type that the client prefers, None if it takes none of them.

    Candidates are full types such as `text/plain; version=0.0.4`, the server's favourite first: it breaks
    ties and is the answer to a client that does not say. A parameter that both sides give must agree; others
    (`charset`, `escaping`) do not count.
    """
    ranges = [_media_range(*each) for each in _weighted(header or "")]
    if not ranges:
        return candidates[0] if candidates else None
    best: str | None = None
    best_quality = 0.0
    for candidate in candidates:
        quality = _quality(candidate, ranges)
        if quality > best_quality:
            best, best_quality = candidate, quality
    return best


def choose_encoding(header: str | None, available: Collection[str]) -> str:
    """The coding to send, `identity` where nothing else is both wanted and available."""
    weights = {coding: quality for coding, _, quality in _weighted(header or "")}
    wildcard = weights.get("*", 0.0)
    best = "identity"
    best_quality = weights.get("identity", 0.0)
    for coding in available:
        quality = weights.get(coding, 0.0 if coding == "identity" else wildcard)
        # At a tie the compressed form is sent: a client that names it has it.
        if coding != "identity" and quality > 0 and quality >= best_quality:
            best, best_quality = coding, quality
    return best


def _weighted(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Elements of a list header: lower-case value, parameters, quality. Elements that make no sense are left
    out, as if the client had not sent them."""
    for element in header.split(","):
        value, *rest = (part.strip() for part in element.split(";"))
        parameters = {}
        quality = 1.0
        for part in rest:
            name, _, text = part.partition("=")
            if name.strip().lower() == "q":
                quality = _quality_value(text.strip())
                break  # what follows q is an extension, not a parameter of the type
            parameters[name.strip().lower()] = text.strip().strip('"').lower()
        if value:
            yield value.lower(), parameters, quality


def _quality_value(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return min(quality, 1.0) if quality > 0 else 0.0  # NaN too is nothing


_MediaRange = tuple[str, str, dict[str, str], float]


def _media_range(value: str, parameters: dict[str, str], quality: float) -> _MediaRange:
    kind, _, subtype = value.partition("/")
    return kind, subtype, parameters, quality


def _quality(candidate: str, ranges: Sequence[_MediaRange]) -> float:
    """The quality of the most specific range that covers the candidate."""
    value, own, _ = next(_weighted(candidate))
    kind, _, subtype = value.partition("/")
    best = (-1, 0.0)
    for range_kind, range_subtype, parameters, quality in ranges:
        if range_kind not in ("*", kind) or range_subtype not in ("*", subtype):
            continue
        shared = [name for name in parameters if name in own]
        if any(parameters[name] != own[name] for name in shared):
            continue
        specificity = (range_kind != "*") + (range_subtype != "*") + len(shared)
        best = max(best, (specificity, quality))
    return best[1]
