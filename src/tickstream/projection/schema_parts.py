"""What descriptions of answers are made of: the API's schemas (schemas.py, calendar_schemas.py) share these.

Nothing of one answer may enter here.
"""

from __future__ import annotations

from typing import Any, Final

MS: Final = {"type": "integer", "description": "ms since the epoch, UTC"}
MS_OR_NULL: Final = {
    "type": ["integer", "null"],
    "description": "ms since the epoch, UTC; null: not (yet) known",
}
TEXT: Final = {"type": "string"}
WHOLE: Final = {"type": "integer", "minimum": 0}


def record(**properties: Any) -> dict[str, Any]:
    """An object with exactly these."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items: dict[str, Any]) -> dict[str, Any]:
    """A list of such."""
    return {"type": "array", "items": items}


def ref(name: str) -> dict[str, Any]:
    """A reference to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


FRESH: Final = {
    "as_of": MS,
    "staleness_ms": {
        **WHOLE,
        "description": "as_of less the least T over all buckets: commands accepted longer ago are in the answer",
    },
    "slowest_bucket": {**WHOLE, "description": "the bucket with the least T"},
    "restoring": {
        **array(WHOLE),
        "description": "buckets being rebuilt; their rows may be ahead of each other",
    },
    "of_buckets": {
        **WHOLE,
        "description": "how many buckets there are; position names those that are in this answer",
    },
    "position": {
        "type": "object",
        "description": "by bucket, the next offsets of timers and history to be folded",
        "additionalProperties": record(timers=WHOLE, history=WHOLE),
    },
}
CURSOR: Final = {
    "type": ["string", "null"],
    "description": "pass it to get the next page; null: that was the last",
}
