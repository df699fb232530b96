"""Networks that several cages share: `python -I -S network.py hold -- PROGRAM…` and `… join PID -- PROGRAM…`.

`hold` runs a trusted program in a network of its own, in which the loopback interface is all there is; `join` begins in
the network of a process, which is usually the launcher of a cage. Exit code 125 and a message: it could not be done.

Only the standard library, and little of it: this runs before caged processes.
"""

import ctypes
import fcntl
import os
import sys

_DEATH_SIGNAL, _KILL = 1, 9
_OWNER = 0xB701
"""NS_GET_USERNS: the user namespace that a network belongs to."""


def main(arguments: list[str]) -> None:
    """Enter the network, then become the program."""
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to load
    from launcher import CANNOT, NEW_NETWORK, NEW_USER, Cannot, loopback_up, separate  # type: ignore[import-not-found]

    libc = ctypes.CDLL(None, use_errno=True)
    end = arguments.index("--")
    words, command = arguments[:end], arguments[end + 1 :]
    try:
        if words[0] == "hold":
            separate(NEW_USER | NEW_NETWORK, os.getuid())
            loopback_up()
            libc.prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
        else:
            network = os.open(f"/proc/{words[1]}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            owner = fcntl.ioctl(network, _OWNER)
            for handle, kind in ((owner, NEW_USER), (network, NEW_NETWORK)):
                if libc.setns(handle, kind) != 0:
                    raise Cannot(f"setns: {os.strerror(ctypes.get_errno())}")
            os.close(owner)
        os.execv(command[0], command)  # noqa: S606
    except (Cannot, OSError) as error:
        os.write(2, f"the network could not be entered: {error}\n".encode())
        os._exit(CANNOT)


if __name__ == "__main__":
    main(sys.argv[1:])
