"""Clients: what a caller asks becomes commands, receipts and verdicts.

Nothing of the dispatcher may enter here: a client knows topics and codec only.
"""

from tickstream.ingest.async_client import AsyncClient
from tickstream.ingest.bulk import ItemResult
from tickstream.ingest.client import Client
from tickstream.ingest.dashboard import Page, Row, TaskView
from tickstream.ingest.producer import Submission
from tickstream.ingest.request import Item

__all__ = ["AsyncClient", "Client", "Item", "ItemResult", "Page", "Row", "Submission", "TaskView"]
