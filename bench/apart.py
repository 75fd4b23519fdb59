"""Become a worker in a network of its own, whose only way out is a listener that another process holds.

Run as a script: `python apart.py UNIX_SOCKET PORT PROGRAM ARGUMENT…`. Makes a network namespace with
nothing but a loopback, listens there on 127.0.0.1:PORT, gives that socket to whoever listens on
UNIX_SOCKET (sockets of a path are of no network), and becomes PROGRAM. Standard library only.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # linux/sockios.h, linux/if.h
REFUSED = 77
"""Exit code where the kernel gives no network namespace."""


def main(holder: str, port: int, command: list[str]) -> None:
    """Replaces this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    # An own user namespace gives a user without rights the right to an own network.
    wanted = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(wanted) != 0:
        sys.stderr.write(f"no network namespace: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(REFUSED)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    with socket.create_server(("127.0.0.1", port)) as listener, socket.socket(socket.AF_UNIX) as test:
        test.connect(holder)
        socket.send_fds(test, [b"listener"], [listener.fileno()])
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
