#!/usr/bin/env python3
"""Calls ccbox once per shell command and reads the machine form: harness.py SPEC COMMAND [CCBOX-OPTION...]

Standard error is shared with the command and can be imitated; the events on a descriptor of their own cannot.
"""
import json
import os
import subprocess
import sys


def call(spec, command, options=(), ccbox="ccbox"):
    """Runs `command` in the sandbox; returns its output, how it ended, and what was denied."""
    reader, writer = os.pipe()
    argv = [ccbox, "run", "-q", "--spec", spec, "--events", f"fd:{writer}", *options, "--", "bash", "-c", command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[writer]) as child:
        os.close(writer)
        output, _ = child.communicate()
    with os.fdopen(reader) as stream:
        events = [json.loads(line) for line in stream]
    ended = next((e for e in events if e["type"] in ("exit", "killed", "error")), None)
    denied = [(e["action"], e["target"]) for e in events if e["type"] == "violation"]
    return output, ended, denied


if __name__ == "__main__":
    output, ended, denied = call(sys.argv[1], sys.argv[2], sys.argv[3:])
    print(output, end="")
    print(f"[{ended['type']} {ended.get('exit_code', ended.get('reason', ''))}]")
    for action, target in denied:
        print(f"[denied {action} {target}]")
