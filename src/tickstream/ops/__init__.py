"""What people run beside the system: the audit, the demo, and the processes that they start.

No promise is kept here: whatever the system guarantees, it guarantees without this package.
"""
