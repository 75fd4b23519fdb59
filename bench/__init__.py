"""Benchmarks: `python -m bench NAME [--quick] [--json]`. Each measures the raw floor in the same run.

Nothing here is imported by the library, and nothing timed is asserted in a test. How to read the
figures: docs/performance.md.
"""
