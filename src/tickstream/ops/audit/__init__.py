"""The audit: what the topics prove of the promises, and which records break them.

Written from the promises G1–G8, as a Jepsen-style checker; nothing of the
dispatcher, the worker or any other implementation may enter here.
"""

from tickstream.ops.audit.reader import GRACE_MS, SESSION_MS, ReadProgress, Span, audit
from tickstream.ops.audit.report import FAULTS, Example, Report, render

__all__ = ["FAULTS", "GRACE_MS", "SESSION_MS", "Example", "ReadProgress", "Report", "Span", "audit", "render"]
