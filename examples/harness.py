#!/usr/bin/env python3
"""Calls ccbox once per shell command and reads the machine form: harness.py SPEC COMMAND [CCBOX-OPTION...]

Standard error is shared with the command and can be imitated; the events on a descriptor of their own cannot. With `--capture` the output
comes with them.
"""
import base64
import json
import os
import subprocess
import sys


class Run:
    """What became of one call."""

    def __init__(self):
        self.handle = None  # session_id, backend, engine, state, error, details
        self.output = b""
        self.denied = []  # (action, target, what would allow it)
        self.ended = None  # the exit, killed or error event

    def take(self, event):
        kind = event["type"]
        if kind == "ready":
            self.handle = event["handle"]
        elif kind in ("stdout", "stderr"):
            self.output += event["text"].encode() if "text" in event else base64.b64decode(event["base64"])
        elif kind == "violation" and event["count"] == 1:
            self.denied.append((event["action"], event["target"], event.get("hint")))
        elif kind in ("exit", "killed", "error"):
            self.ended = event
        # Types that are not known here are for somebody else.
        if self.handle and "state" in event:
            self.handle.update(state=event["state"], error=event.get("error"))


def call(spec, command, options=(), ccbox="ccbox"):
    """Runs `command` in the sandbox."""
    reader, writer = os.pipe()
    argv = [ccbox, "run", "-q", "--spec", spec, "--capture", "--events", f"fd:{writer}", *options, "--", "bash", "-c", command]
    run = Run()
    # What ccbox itself says is in the events, too.
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[writer]):
        os.close(writer)
        with os.fdopen(reader) as stream:
            for line in stream:
                run.take(json.loads(line))
    return run


def main():
    run = call(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    sys.stdout.buffer.write(run.output)
    sys.stdout.buffer.flush()
    if run.ended is None:
        sys.exit("[ccbox was killed]")
    how = run.ended.get("exit_code", run.ended.get("reason"))
    print(f"[{run.ended['type']} {how}]")
    for action, target, hint in run.denied:
        print(f"[denied {action} {target}]")
        if hint:
            print(f"[hint {hint}]")
    if run.handle:
        print(f"[{run.handle['backend']} {run.handle['state']}]")


if __name__ == "__main__":
    main()
