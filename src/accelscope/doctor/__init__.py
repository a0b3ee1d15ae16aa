"""`accelscope doctor`: what was looked for on this node, what was found, and what to do about it.

Areas are tuples of checks, and checks are data: a name, a function from the Subject to findings, and how long
it may take. The examination runs each in a thread of its own, because a driver that hangs must not hang the
one who wants to know why. A vendor's checks are one module or package, named in `vendors`.
"""

from accelscope.doctor.check import Finding, Severity, Subject
from accelscope.doctor.examination import Report, areas_for, document, examine, text

__all__ = ["Finding", "Report", "Severity", "Subject", "areas_for", "document", "examine", "text"]
