"""Grafana dashboards, recording rules and alert rules, generated from code.

`scripts/dashboards` writes them into the chart. They may only use metrics and labels that the programs
declare."""
