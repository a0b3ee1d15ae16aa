"""Grafana dashboards, built with Grafana's Foundation SDK."""
