"""lacks.py WHAT COMMAND...: the command on a kernel that lacks something, told so by a filter around it."""
import ctypes, os, platform, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
LANDLOCK_CREATE_RULESET, EINVAL, ENOSYS = 444, 22, 38
MOUNTS = [*range(428, 434), 442]  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick; mount_setattr
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, OPERATION, FLAGS = 0, 16, 24  # in struct seccomp_data: nr, the low halves of args[0] and args[1]


def load(offset):
    return (0x20, 0, 0, offset)


def unless(value, skip):
    return (0x15, 0, skip, value)


def unless_bit(bit, skip):
    return (0x45, 0, skip, bit)


def answer(value):
    return (0x06, 0, 0, value)


def install(program, flags=0):
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    result = libc.syscall(SECCOMP, 1, flags, ctypes.byref(program))
    assert result >= 0, os.strerror(ctypes.get_errno())


WHAT = {
    "nothing": [],
    "landlock": [load(NUMBER), unless(LANDLOCK_CREATE_RULESET, 1), answer(ERRNO | ENOSYS), answer(ALLOW)],
    # Docker's default filter, without CAP_SYS_PTRACE.
    "descriptors": [load(NUMBER), unless(438, 1), answer(ERRNO | 1), answer(ALLOW)],
    # Before Linux 5.12 mount_setattr is missing, before 5.2 all of them.
    "mount_setattr": [load(NUMBER), unless(442, 1), answer(ERRNO | ENOSYS), answer(ALLOW)],
    "mounts": [load(NUMBER), *(i for n in MOUNTS for i in (unless(n, 1), answer(ERRNO | ENOSYS))), answer(ALLOW)],
    # Before Linux 5.0: no sizes to ask for, and no such flag.
    "notification": [
        load(NUMBER), unless(SECCOMP, 6),
        load(OPERATION), unless(3, 1), answer(ERRNO | EINVAL),
        load(FLAGS), unless_bit(8, 1), answer(ERRNO | EINVAL), answer(ALLOW),
    ],
    # A container's filter that knows the question and refuses the listener.
    "listener": [load(NUMBER), unless(SECCOMP, 3), load(FLAGS), unless_bit(8, 1), answer(ERRNO | EINVAL), answer(ALLOW)],
    # Somebody else has it: this process, which stays and is never asked.
    "owned": [answer(ALLOW)],
}

what, command = sys.argv[1], sys.argv[2:]
if WHAT[what]:
    install(WHAT[what], 8 if what == "owned" else 0)
if what == "owned":
    sys.exit(subprocess.call(command))
os.execvp(command[0], command)
