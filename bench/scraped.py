"""What a dispatcher says of itself under /metrics. It has to run with --health-port."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tickstream.ops.processes import ManagedProcess


def commit_ms(dispatcher: ManagedProcess) -> float:
    """The mean of all transactions of all its processes, begun to committed."""
    total, count = 0.0, 0.0
    for port in {e["port"] for e in dispatcher.events if e["event"] == "health"}:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            if family.name == "tickstream_dispatcher_commit_seconds":
                total += sum(s.value for s in family.samples if s.name.endswith("_sum"))
                count += sum(s.value for s in family.samples if s.name.endswith("_count"))
    return total / count * 1_000 if count else 0.0
