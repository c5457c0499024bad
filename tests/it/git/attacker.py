"""Random operations on names that make and fill git directories, in the current directory.

    attacker.py SEED COUNT

Whatever it writes where git would look for a program, a setting or a remote says EVIL. It never stops at an error.
"""

import ctypes
import os
import random
import sys

NAMES = [".git", ".git", ".git", "HEAD", "HEAD", "refs", "refs", "objects", "config", "config.lock", "config.worktree", "hooks", "worktrees",
         "commondir", "info", "attributes", "remotes", "pre-commit", "a.sample", "x", "y", "z"]
SAFE = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
EVIL = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = EVIL\n"
TEXTS = [SAFE, EVIL, EVIL, b"../..\n", b"../..", b"../x\n", b"x\n", b"gitdir: ../x EVIL\n", b"ref: refs/heads/main\n", b"#!/bin/sh\nEVIL\n", b"* filter=EVIL\n"]

libc = ctypes.CDLL(None, use_errno=True)
chance = random.Random(int(sys.argv[1]))
kept = []


state = {"folders": ["."], "entries": ["./none"]}


def look():
    found, all_of_them = ["."], []
    for top, dirs, files in os.walk("."):
        if top.count("/") < 4:
            found += [os.path.join(top, d) for d in dirs]
        all_of_them += [os.path.join(top, n) for n in dirs + files]
    state.update(folders=found, entries=all_of_them or ["./none"])


def folders():
    return state["folders"]


def entries():
    return state["entries"]


def name():
    return os.path.join(chance.choice(folders()), chance.choice(NAMES))


def text():
    return chance.choice(TEXTS)


def write():
    at = os.open(name(), os.O_WRONLY | os.O_CREAT | chance.choice([0, os.O_TRUNC, os.O_EXCL]), 0o755)
    os.write(at, text())
    kept.append(at)


def keep():
    kept.append(os.open(chance.choice(entries()), chance.choice([os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])))


def use():
    at = chance.choice(kept or [-1])
    if chance.random() < 0.5:
        os.ftruncate(at, 0)
        os.lseek(at, 0, os.SEEK_SET)
    os.write(at, text())


def reopen():
    at = os.open(f"/proc/self/fd/{chance.choice(kept or [99])}", os.O_WRONLY | os.O_TRUNC)
    os.write(at, text())
    os.close(at)


def unnamed():
    at = os.open(chance.choice(folders()), os.O_TMPFILE | os.O_WRONLY, 0o755)
    os.write(at, text())
    libc.linkat(-100, b"/proc/self/fd/%d" % at, -100, name().encode(), 0x400)
    kept.append(at)


def skeleton():
    at = name()
    for d in ("", "refs", "objects"):
        os.makedirs(os.path.join(at, d), exist_ok=True)
    for f in chance.sample(["HEAD", "config", "hooks/pre-commit", "commondir", "info/attributes", "config.worktree"], 3):
        os.makedirs(os.path.dirname(os.path.join(at, f)), exist_ok=True)
        with open(os.path.join(at, f), "wb") as out:
            out.write(b"ref: refs/heads/main\n" if f == "HEAD" else text())


def lock():
    at = os.path.join(os.path.dirname(name()), chance.choice(["config", "config.worktree"]))
    fd = os.open(at + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, chance.choice([SAFE, SAFE, EVIL]))
    kept.append(fd)
    os.rename(at + ".lock", at)


def linked():
    """What `git worktree add` does by hand."""
    at = os.path.join(chance.choice(folders()), "worktrees", chance.choice("xy"))
    os.makedirs(at, exist_ok=True)
    for f in chance.sample(["HEAD", "commondir", "config.worktree", "gitdir"], 3):
        with open(os.path.join(at, f), "wb") as out:
            out.write(b"ref: refs/heads/main\n" if f == "HEAD" else text())


ACTS = [
    write, write, write, keep, use, use, reopen, unnamed, skeleton, lock, lock, linked,
    lambda: os.mkdir(name()), lambda: os.mkdir(name()),
    lambda: os.symlink(chance.choice(folders() + entries()), name()),
    lambda: os.symlink(chance.choice(["..", "x", "../x", "../y"]), name()),
    lambda: os.unlink(chance.choice(entries())), lambda: os.rmdir(chance.choice(folders())),
    lambda: os.rename(chance.choice(entries()), name()), lambda: os.rename(chance.choice(entries()), name()),
    lambda: os.rename(chance.choice(folders()), name()), lambda: os.rename(chance.choice(folders()), name()),
    lambda: os.link(chance.choice(entries()), name()), lambda: os.link(chance.choice(entries()), name()),
    lambda: libc.renameat2(-100, chance.choice(entries()).encode(), -100, chance.choice(entries()).encode(), 2),
    lambda: os.chmod(chance.choice(entries()), chance.choice([0o755, 0o777, 0o700])),
    lambda: os.truncate(chance.choice(entries()), 0),
]

for n in range(int(sys.argv[2])):
    if n % 8 == 0:
        look()
    try:
        chance.choice(ACTS)()
    except OSError:
        pass
    while len(kept) > 40:
        os.close(kept.pop(chance.randrange(len(kept))))
print("__done__")
