"""A cage of plain Linux namespaces: `python -I -S launcher.py WORDS… -- PROGRAM…`, with the filter on descriptor 9.

Words come in threes: `read INSIDE OUTSIDE` and `write INSIDE OUTSIDE` name what can be seen, `scratch BYTES ''` the
size of /tmp in memory or, with a path, the folder in its place, `variable NAME VALUE` the environment, `folder PATH ''`
where to begin; with `processes '' ''` the program may start others, and the first process of the new process namespace
only waits and collects them; with `joined '' ''` it stays in the network that it was started in. All ends with whoever
started this. Exit code 125 and a message: the cage could not be built. A program that dies of a signal gives 128 plus
its number.

Only the standard library, and little of it: this runs before every caged process.
"""

import ctypes
import os
import sys

CANNOT = 125
FILTER_DESCRIPTOR = 9
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
_NEW_NAMESPACES = NEW_USER | 0x00020000 | 0x20000000 | NEW_NETWORK | 0x08000000 | 0x04000000 | 0x02000000
"""User, mount, process, network, IPC, UTS and cgroup."""
_NOBODY = 65534
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_KEPT_FLAGS = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""Flags of a mount as statvfs tells them, and as mount wants them: what is locked must be repeated."""
_DETACH = 2
_DEATH_SIGNAL, _SET_SECCOMP, _NO_NEW_PRIVILEGES = 1, 22, 38
_KILL = 9
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


class Cannot(Exception):  # noqa: N818 - a state
    """The cage cannot be built here."""


def _check(result: int, what: str) -> None:
    if result != 0:
        raise Cannot(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(result, f"mount {target}")


def _pivot(new: str, old: str) -> None:
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], new.encode(), old.encode()), "pivot_root")


def separate(namespaces: int, inside: int) -> None:
    """Into new namespaces, as a user with this number inside."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(namespaces), "unshare")
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{inside} {user} 1"),
            ("gid_map", f"{inside} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:  # noqa: PTH123 - pathlib is slow to load
                stream.write(text)
    except OSError as error:
        raise Cannot(f"{error.filename}: {error.strerror}") from None


def loopback_up() -> None:
    """SIOCSIFFLAGS with up and running, by hand: the socket module is slow to load."""
    handle = _libc.socket(2, 2, 0)
    request = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + (0x1 | 0x40).to_bytes(2, sys.byteorder), 40)
    _check(_libc.ioctl(handle, 0x8914, request), "loopback")
    os.close(handle)


def _make_place(path: str, *, folder: bool) -> None:
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def _bind(source: str, target: str, *, writable: bool) -> None:
    _make_place(target, folder=os.path.isdir(source))  # noqa: PTH112
    _mount(source, target, "", _BIND | _RECURSIVE)
    present = os.statvfs(target).f_flag
    flags = sum(flag for seen, flag in _KEPT_FLAGS.items() if present & seen)
    _mount("", target, "", _REMOUNT | _BIND | _NO_SUID | flags | (0 if writable else _READ_ONLY))


def _build(words: list[list[str]]) -> None:
    """A root of nothing but what the words name; the old root is gone afterwards."""
    _mount("", "/", "", _PRIVATE | _RECURSIVE)
    _mount("cage", "/tmp", "tmpfs", _NO_SUID | _NO_DEVICES)  # noqa: S108 - any folder that is always there
    os.mkdir("/tmp/old")  # noqa: S108, PTH102
    os.mkdir("/tmp/new")  # noqa: S108, PTH102
    _pivot("/tmp", "/tmp/old")  # noqa: S108
    os.chdir("/")
    _mount("cage", "/new", "tmpfs", _NO_SUID | _NO_DEVICES)
    os.mkdir("/new/tmp")  # noqa: PTH102
    for kind, first, second in words:
        if kind == "scratch" and second:
            _bind(f"/old{second}", "/new/tmp", writable=True)
        elif kind == "scratch":
            _mount("scratch", "/new/tmp", "tmpfs", _NO_SUID | _NO_DEVICES, f"size={first},mode=1777")
        elif kind in ("read", "write"):
            _bind(f"/old{second}", f"/new{first}", writable=kind == "write")
    _check(_libc.umount2(b"/old", _DETACH), "umount")
    os.chdir("/new")
    _pivot(".", ".")
    _check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    _mount("", "/", "", _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _refuse_calls(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _check(_libc.prctl(_SET_SECCOMP, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0), "seccomp")


def _enter(words: list[list[str]], command: list[str]) -> None:
    """In the first process of the new process namespace."""
    _libc.prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
    with os.fdopen(FILTER_DESCRIPTOR, "rb") as stream:
        program = stream.read()
    _build(words)
    for folder in [first for kind, first, _ in words if kind == "folder"]:
        os.chdir(folder)
    child = os.fork() if ["processes", "", ""] in words else 0
    if child != 0:
        os._exit(_ended_like(child))
    _refuse_calls(program)
    os.execve(command[0], command, {name: value for kind, name, value in words if kind == "variable"})  # noqa: S606


def _ended_like(child: int) -> int:
    """Wait without holding anything open; whoever else was left to us is collected, too."""
    for descriptor in range(10):
        try:
            os.close(descriptor)
        except OSError:
            continue
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(arguments: list[str]) -> int:
    """Build the cage, run the program in it, end as it ends."""
    end = arguments.index("--")
    words, command = [arguments[at : at + 3] for at in range(0, end, 3)], arguments[end + 1 :]
    parent = os.getppid()
    try:
        joined = ["joined", "", ""] in words
        separate(_NEW_NAMESPACES & ~NEW_NETWORK if joined else _NEW_NAMESPACES, _NOBODY)
        _libc.prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
        if os.getppid() != parent:
            return CANNOT
        if not joined:
            loopback_up()
        child = os.fork()
        if child == 0:
            _enter(words, command)
    except (Cannot, OSError) as error:
        os.write(2, f"the cage could not be built: {error}\n".encode())
        os._exit(CANNOT)
    return _ended_like(child)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
