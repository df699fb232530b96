"""The system calls that are refused inside a cage, as a program for the kernel's seccomp filter.

Namespaces take things out of sight; this list takes the calls away that could undo them or that no limit counts:
new namespaces and mounts, other processes' memory, kernel interfaces with a history of holes, files that live in
memory only, socket families that a network namespace does not separate. Most programs cannot start processes either,
so that what limits one process limits all of the cage.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD, _NEW_NAMESPACES = 0x00010000, 0x7E020080
_X32 = 0x40000000
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink."""


@dataclass(frozen=True, slots=True)
class _Machine:
    architecture: int
    refused: dict[str, int]
    clone: int
    clone3: int
    socket: int
    fork: tuple[int, ...]
    absent: tuple[int, ...]
    """Answered as by a kernel that does not have them, so that libraries do without."""


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        {
            "ptrace": 101, "syslog": 103, "personality": 135, "pivot_root": 155, "chroot": 161, "acct": 163,
            "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
            "setdomainname": 171, "init_module": 175, "delete_module": 176, "quotactl": 179, "add_key": 248,
            "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "name_to_handle_at": 303,
            "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
            "finit_module": 313, "kexec_load": 246, "kexec_file_load": 320, "memfd_create": 319, "bpf": 321,
            "userfaultfd": 323, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
            "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
        },
        clone=56, clone3=435, socket=41, fork=(57, 58), absent=(425, 426, 427),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            "ptrace": 117, "syslog": 116, "personality": 92, "pivot_root": 41, "chroot": 51, "acct": 89, "mount": 40,
            "umount2": 39, "swapon": 224, "swapoff": 225, "reboot": 142, "sethostname": 161, "setdomainname": 162,
            "init_module": 105, "delete_module": 106, "quotactl": 60, "add_key": 217, "request_key": 218,
            "keyctl": 219, "unshare": 97, "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265,
            "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
            "kexec_load": 104, "kexec_file_load": 294, "memfd_create": 279, "bpf": 280, "userfaultfd": 282,
            "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
            "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
        },
        clone=220, clone3=435, socket=198, fork=(), absent=(425, 426, 427),
    ),
}  # fmt: skip


def known_machine() -> bool:
    """There is a filter for this kind of machine."""
    return platform.machine() in _MACHINES


def filter_program(*, processes: bool) -> bytes:
    """The filter; with `processes`, new processes may be started."""
    machine = _MACHINES[platform.machine()]
    program = [
        _statement(_LOAD, _ARCHITECTURE),
        _jump(_EQUAL, machine.architecture, then=1),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += [_jump(_AT_LEAST, _X32, otherwise=1), _refuse(_EPERM)]
    refused = [*machine.refused.values(), *(() if processes else machine.fork)]
    for number in refused:
        program += [_jump(_EQUAL, number, otherwise=1), _refuse(_EPERM)]
    # Its flags lie in memory, which a filter cannot see; libraries then use clone.
    for number in (machine.clone3, *machine.absent):
        program += [_jump(_EQUAL, number, otherwise=1), _refuse(_ENOSYS)]
    families = [_jump(_EQUAL, family, then=len(_FAMILIES) - at) for at, family in enumerate(_FAMILIES)]
    sockets = [_statement(_LOAD, _FIRST_ARGUMENT), *families, _refuse(_EAFNOSUPPORT), _statement(_RETURN, _ALLOW)]
    program += [_jump(_EQUAL, machine.socket, otherwise=len(sockets)), *sockets]
    clones = [_statement(_LOAD, _FIRST_ARGUMENT), _jump(_ANY_BIT, _NEW_NAMESPACES, otherwise=1), _refuse(_EPERM)]
    if not processes:
        clones += [_jump(_ANY_BIT, _CLONE_THREAD, then=1), _refuse(_EPERM)]
    clones += [_statement(_RETURN, _ALLOW)]
    program += [_jump(_EQUAL, machine.clone, otherwise=len(clones)), *clones, _statement(_RETURN, _ALLOW)]
    return b"".join(program)


def _statement(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _refuse(error: int) -> bytes:
    return _statement(_RETURN, _ERROR | error)
