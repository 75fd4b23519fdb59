"""Become another program that dies with its parent: `python -I -S launcher.py PARENT_PID PROGRAM ARGUMENT…`.

Run as a script by node.py, so it may import nothing but the standard library.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent_pid: int, command: list[str]) -> None:
    """Replaces this process; the death signal outlives execve (prctl(2)).

    The kernel counts the parent *thread*: whoever starts this must do so from a thread that stays.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # A parent that died before prctl sends no signal any more.
    if os.getppid() != parent_pid:
        sys.exit("the process that wanted this broker is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
