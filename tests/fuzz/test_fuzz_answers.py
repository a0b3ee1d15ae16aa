"""What the fuzzer holds against an answer, without the engine: wrong ones are noticed, seeds are readable."""

import math
import time

import pytest
from tools.fuzz import answers, seeds

from accelscope.model import Device, Process, Rejection, Vendor
from accelscope.parsing import OutputFormat, ParseResult, sources


def device(**values: object) -> ParseResult:
    return ParseResult(devices=(Device(vendor=Vendor("amd"), id="amd:x", **values),))  # type: ignore[arg-type]


@pytest.mark.parametrize("source", sources())
def test_every_source_has_seeds_that_are_readings(source: str) -> None:
    texts = [path.read_text() for path in seeds.own(source)]
    assert len(texts) >= 2
    for text in texts:
        answers.examine(sources()[source], text)
    read = [sources()[source].parse(text, None) for text in texts]
    assert any(
        parsed.devices
        or parsed.processes
        or parsed.containers
        or parsed.allocations
        or parsed.ratio
        or parsed.versions
        for parsed in read
    )


@pytest.mark.parametrize("source", sources())
def test_what_the_fuzzer_kept_is_answered_rightly(source: str) -> None:
    kept = seeds.kept(source)
    assert kept, "python -m tools.fuzz.keep makes it"
    for path in kept:
        answers.examine(sources()[source], path.read_bytes().decode(errors="replace"))
    assert sum(path.stat().st_size for path in kept) < 8 << 10


def test_the_corpus_is_of_sources_that_there_are() -> None:
    assert {path.name for path in seeds.CORPUS.iterdir()} == set(sources())


def test_the_fuzzer_knows_every_source() -> None:
    assert list(seeds.packages()) == list(sources())


@pytest.mark.parametrize(
    ("parsed", "text"),
    [
        (device(power_watts=math.nan), "1"),
        (device(power_watts=math.inf), "1"),
        (device(memory_used_bytes=-1), "1"),
        (device(utilization_ratio=55.0), "55"),
        (device(board_id=3), "33"),
        (device(power_watts=1.0), "no digit"),
        (device(model="\ud800"), "1"),
        (ParseResult(processes=(Process(pid=12),)), "123"),
        (ParseResult(rejected=(Rejection("x", "not_a_row"),) * 102), ""),
        (ParseResult(rejected=(Rejection("x" * 501, "not_a_row"),)), ""),
    ],
    ids=[
        *("not a number", "infinite", "negative", "percent", "another number", "out of nothing"),
        *("not UTF-8", "another pid", "rejections", "a long rejection"),
    ],
)
def test_a_wrong_answer_is_noticed(parsed: ParseResult, text: str) -> None:
    assert list(answers.faults(parsed, text))


@pytest.mark.parametrize(
    ("parsed", "text"),
    [
        (ParseResult(), ""),
        (device(index=0, power_watts=0.0), "no digit"),
        (device(temperature_celsius=-4.0), "-4"),
        (device(board_id=3), "0003"),
        (ParseResult(processes=(Process(pid=12),)), r"\u0031\u0032"),
    ],
)
def test_a_right_answer_is_left_alone(parsed: ParseResult, text: str) -> None:
    assert not list(answers.faults(parsed, text))


def test_a_parser_that_takes_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SOON_SECONDS", 0.01)

    def busy(_text: str, _fields: object) -> ParseResult:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return ParseResult()

    with pytest.raises(answers.Wrong, match="characters"):
        answers.examine(OutputFormat("busy", "", busy), "x")


def test_columns_are_tried_where_a_source_takes_them() -> None:
    asked: list[tuple[str, object]] = []

    def listening(text: str, names: object) -> ParseResult:
        asked.append((text, names))
        return ParseResult()

    answers.examine(OutputFormat("csv", "", listening, default_fields=("index",)), "a,b\n1,2")
    assert asked == [("a,b\n1,2", None), ("1,2", ["a", "b"])]


def test_words_of_the_format_become_the_dictionary() -> None:
    assert seeds.dictionary(['{"gfx_activity": "5 %"}', "gfx_activity HBM-Usage(MB)"]) == (
        '"gfx_activity"\n"HBM-Usage(MB)"\n'
    )
