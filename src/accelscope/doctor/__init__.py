"""`accelscope doctor`: checks this node and suggests how to fix what it finds.

An area is a tuple of checks. A check is data: a name, a function from Subject to findings, and a deadline.
Each check runs in its own thread, so a hanging driver does not hang the examination. Vendors declare their
checks as `VendorDeclaration.examination`.
"""

from accelscope.doctor.check import Finding, Severity, Subject
from accelscope.doctor.examination import Report, areas_for, document, examine, text
from accelscope.doctor.vendors import cross_check_area, cross_check_commands

__all__ = [
    "Finding",
    "Report",
    "Severity",
    "Subject",
    "areas_for",
    "cross_check_area",
    "cross_check_commands",
    "document",
    "examine",
    "text",
]
