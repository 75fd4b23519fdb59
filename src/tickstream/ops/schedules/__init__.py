"""Schedules that code or a file declares, held against what runs, and brought in line with it.

What a recurring task means is the client's and the dispatcher's; nothing of that may enter here.
"""
