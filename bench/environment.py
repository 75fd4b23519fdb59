"""What a figure has to be read with: the machine, the versions, and how busy it was.

Nothing is measured here.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import confluent_kafka


def environment(kafka_version: str) -> dict[str, object]:
    """The environment of a run, as of now; call it before the run, for the load average."""
    return {
        "cpus": os.cpu_count(),
        "cpu_model": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "confluent_kafka": confluent_kafka.version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "kafka": kafka_version,
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
    }


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 when it is gone or the system does not say."""
    value = _field(f"/proc/{pid}/status", "VmRSS")
    return int(value.split()[0]) * 1024 if value else 0


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, user and system; 0 when the system does not say."""
    try:
        # Behind the name, which may hold spaces, in parentheses: see proc_pid_stat(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except FileNotFoundError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
