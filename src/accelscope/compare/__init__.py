"""Compares the metrics page of another exporter with the agent's page in its dialect."""

from accelscope.compare.comparison import Comparison, KnownDialect, Scrape, compare, detect, known
from accelscope.compare.page import Page, PageError, Source, parse
from accelscope.compare.report import document, text

__all__ = [
    "Comparison",
    "KnownDialect",
    "Page",
    "PageError",
    "Scrape",
    "Source",
    "compare",
    "detect",
    "document",
    "known",
    "parse",
    "text",
]
