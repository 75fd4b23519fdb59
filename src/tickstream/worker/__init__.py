"""Handlers and the process that runs them.

Never decides when anything is due: it takes what the dispatcher put into `work.<queue>`.
"""

from tickstream.worker.app import App, Handler
from tickstream.worker.context import Context
from tickstream.worker.loader import load_app

__all__ = ["App", "Context", "Handler", "load_app"]
