"""Runs a command, and writes to a file how long it took and the peak of its resident memory: `python -m bench.peak FILE COMMAND …`.

A process of its own because of the peak: the kernel gives a child, at its start, that of the process that made it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    """The command's exit code."""
    file, *command = arguments
    began = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1_024
    took = {"seconds": time.monotonic() - began, "rss_bytes": usage.ru_maxrss * unit}
    Path(file).write_text(json.dumps(took))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
