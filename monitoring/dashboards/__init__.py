"""Grafana dashboards, as data of Grafana's own types."""
