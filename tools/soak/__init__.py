"""A day's churn on a running agent, compressed into minutes: `python -m tools.soak [--short]`.

Pods and their processes come and go; devices are lost, vanish, hang and return; drivers are reloaded; API
server and kubelet drop out; settings and certificates change. All the while the agent is scraped, also by
clients that are slow or leave. What is looked at is whether it grows by that: memory, threads, files, series.
"""
