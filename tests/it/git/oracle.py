"""Asks git about every directory below the current one, and prints what it would run or believe of what says EVIL.

    oracle.py GIT

The last line is how many directories git takes for git directories.
"""

import os
import subprocess
import sys

GIT = sys.argv[1]
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


def git(at, *words):
    done = subprocess.run([GIT, f"--git-dir={at}", *words], env=ENVIRONMENT, cwd="/", capture_output=True)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def evil(path):
    try:
        with open(path, "rb") as file:
            return b"EVIL" in file.read(1 << 20)
    except OSError:
        return False


taken = 0
for top, dirs, files in os.walk("."):
    # By a link to it as well: what is read beside it is the same.
    at = os.path.abspath(top)
    if not os.path.lexists(os.path.join(at, "HEAD")):
        continue
    common = git(at, "rev-parse", "--git-common-dir")
    if common is None:
        continue
    taken += 1
    common = os.path.join(at, common.strip())
    listed = git(at, "config", "--list")
    if listed is None or "EVIL" in listed:
        # git that cannot read its configuration runs nothing.
        if listed:
            print("configuration of", top)
    for place in ("hooks", "remotes", "branches"):
        place = os.path.join(common, place)
        for name in os.listdir(place) if os.path.isdir(place) else []:
            if not name.endswith(".sample") and evil(os.path.join(place, name)):
                print(name, "in", place, "of", top)
    if evil(os.path.join(common, "info/attributes")):
        print("attributes of", top)
print(taken)
