"""The parsers under the fuzzing engine, for a moment each: `make prove` takes its time."""

from tests.e2e.proofs import printed_with

from accelscope.parsing import sources


def test_no_input_that_breaks_a_parser_is_found_in_a_moment() -> None:
    printed = printed_with("atheris", "scripts/fuzz", seconds=600, FUZZ_SECONDS="30", FUZZ_SEED="1")
    assert "fuzz: nothing found" in printed
    lines = [line.split() for line in printed.splitlines() if " inputs " in line]
    assert {words[0] for words in lines} == set(sources())
    assert all(int(words[1]) > 0 for words in lines), printed
