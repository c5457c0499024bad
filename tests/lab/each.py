#!/usr/bin/python3
"""Runs tests, each in a process of its own: tests here change process groups, signals and descriptors.

usage: each.py LIST [--only NAME] [--jobs N] [--limit SECONDS]

LIST has one test executable a line (`cargo test --no-run --message-format=json` names them). Prints what fails, with
its output, and at the end one line: `P passed, F failed, I ignored`. Succeeds if nothing failed and something passed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def names(executable, *flags):
    out = subprocess.run([executable, "--list", "--format", "terse", *flags], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    lines = out.stdout.decode().splitlines()
    return [l.removesuffix(": test") for l in lines if l.endswith(": test")]


def fresh():
    """A group of its own, and no signal ignored: what the caller ignores (nohup) would be inherited by every command."""
    os.setpgid(0, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def run(executable, name, limit):
    """Answers (passed, what it printed, seconds)."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:  # not a pipe: a process that outlives its test must not hold us up
        child = subprocess.Popen(
            [executable, "--exact", name, "--nocapture"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=fresh
        )
        try:
            passed = child.wait(limit) == 0
            note = b"" if child.returncode >= 0 else f"ended by signal {-child.returncode}\n".encode()
        except subprocess.TimeoutExpired:
            passed, note = False, f"still running after {limit} s\n".encode()
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return passed, output.read() + note, time.monotonic() - start


def main():
    args = argparse.ArgumentParser()
    args.add_argument("list")
    args.add_argument("--only", default="")
    args.add_argument("--jobs", type=int, default=os.cpu_count())
    args.add_argument("--limit", type=int, default=300)
    args = args.parse_args()
    os.environ["CARGO_MANIFEST_DIR"] = os.getcwd()  # as cargo does
    jobs, ignored = [], 0
    for executable in pathlib.Path(args.list).read_text().split("\n"):
        if not executable:
            continue
        skip = set(names(executable, "--ignored"))
        chosen = [n for n in names(executable) if args.only in n]
        ignored += sum(n in skip for n in chosen)
        jobs += [(executable, n) for n in chosen if n not in skip]
    failed = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(run, e, n, args.limit): n for e, n in jobs}
        for done in concurrent.futures.as_completed(running):
            name = running[done]
            passed, output, seconds = done.result()
            if not passed:
                failed.append(name)
                print(f"FAIL {name} ({seconds:.1f} s)", flush=True)
                sys.stdout.buffer.write(b"".join(b"    " + l for l in output.splitlines(True)))
            elif seconds > 20:
                print(f"slow {name} ({seconds:.1f} s)", flush=True)
    for name in sorted(failed):
        print(f"failed: {name}")
    print(f"{len(jobs) - len(failed)} passed, {len(failed)} failed, {ignored} ignored", flush=True)
    sys.exit(0 if jobs and not failed else 1)


main()
