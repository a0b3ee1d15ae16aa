"""Under which domains a Node's labels may stand. Apart from what makes the labels, because the settings name
the domains in every agent, and few write labels."""

from accelscope.vendors import declarations

ACCELSCOPE = "accelscope.io"
DOMAINS = (ACCELSCOPE, *(domain for vendor in declarations().values() for domain, _ in vendor.label_domains))
