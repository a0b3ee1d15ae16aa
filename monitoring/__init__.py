"""What is looked at and what wakes people: Grafana dashboards, recording rules and alert rules, from code.

`scripts/dashboards` writes them into the chart. They may only use names and labels that are declared."""
