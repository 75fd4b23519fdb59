"""The base of enumerations that are looked up for every record. No term itself may enter here."""

from __future__ import annotations

from enum import Enum


class Term(Enum):
    """An Enum whose members hash as the singletons they are.

    Enum's own hash is a Python call, made for every look-up in a dict or a set; object's is not. Sets of
    them therefore iterate in no order that repeats: sort, or use a dict.
    """

    __hash__ = object.__hash__
