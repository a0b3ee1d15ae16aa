"""AccelScope: what every accelerator in a Kubernetes fleet is doing, and which pod is doing it."""

__version__ = "0.1.0"
