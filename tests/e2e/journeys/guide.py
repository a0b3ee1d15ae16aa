"""The documentation, as somebody reads it who has nothing else: one command, one block, one list at a time.
They are found by what stands in them, so that a page may grow around them."""

from collections.abc import Iterator
from typing import Any

import yaml
from tests.e2e.page_commands import sections
from tests.repository import REPOSITORY

PROMPT = "$ "


def block(page: str, section: str, *words: str) -> str:
    """The block of commands in which all these words stand. The page is named from the root of the clone."""
    return _only(page, section, words, _blocks(page, section))


def command(page: str, section: str, *words: str) -> str:
    """One of them alone, where the page has several in a block."""
    typed = [each for text in _blocks(page, section) for each in _commands(text)]
    return _only(page, section, words, typed)


def promql(page: str, section: str, *words: str) -> str:
    return _only(page, section, words, _of_language(page, section, "promql"))


def listed(page: str, section: str, *words: str) -> Any:
    """What a YAML file of the page says."""
    return yaml.safe_load(_only(page, section, words, _of_language(page, section, "yaml")))


def _blocks(page: str, section: str) -> list[str]:
    typed = ["\n".join(_after_prompts(text)) for text in _of_language(page, section, "console")]
    return [*_of_language(page, section, "sh"), *typed]


def _of_language(page: str, section: str, wanted: str) -> list[str]:
    return [text for language, text in sections(REPOSITORY / page)[section] if language == wanted]


def _after_prompts(text: str) -> Iterator[str]:
    """What is typed of a block that also shows what is answered."""
    goes_on = False
    for line in text.splitlines():
        if line.startswith(PROMPT) or goes_on:
            yield line.removeprefix(PROMPT)
            goes_on = line.endswith("\\")


def _commands(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _only(page: str, section: str, words: tuple[str, ...], written: list[str]) -> str:
    found = [text for text in written if all(word in text for word in words)]
    assert len(found) == 1, f"{page}, {section}: {len(found)} places have {words}\n" + "\n".join(written)
    return found[0]
