"""The read side: what is scheduled, running and finished, as a covering index with its own staleness.

Nothing here writes to Kafka, and no decision about a task is made here.
"""
