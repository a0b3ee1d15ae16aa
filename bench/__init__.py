"""Measures the agent beside other exporters, on one simulated node, in one run: `python -m bench`.

Nothing here fails by a figure. It prints; people and `docs/benchmarks.md` compare.
"""
