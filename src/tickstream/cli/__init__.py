"""The command line: one file a noun.

Reads arguments and environment, calls a room, prints what it said; nothing is decided here. Rooms are
imported inside the commands, so that `--help` stays quick.
"""
