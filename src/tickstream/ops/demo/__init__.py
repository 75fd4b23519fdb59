"""The demo: the whole system on this machine for a minute, disturbed on purpose, and audited.

It starts the same commands that a person would; no promise of the system may rest on this package.
"""
