"""The dispatcher: owns lanes, applies commands and reports, dispatches what is due.

Layers inside: engine (pure) < bucket < records < lane < takeover < process. Nothing here knows
the client, the worker or the dashboard.
"""
