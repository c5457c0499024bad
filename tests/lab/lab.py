#!/usr/bin/python3
"""The laboratory: test hosts on documentation addresses inside namespaces of their own.

usage: lab.py DIR UID GID HOME [--ssh] [--user-bin NAME=PATH]... [--rust SYSROOT]

Makes one mount namespace and two network namespaces that are joined by a virtual cable:

  user side     what a test takes for "this machine": commands under test run here
  outside       the test hosts; none of their addresses belongs to the user side

and prints `ready PID` once everything listens; PID is a process on the user side whose namespaces a command joins
(`nsenter --target PID --net --mount`). Nothing outside the namespaces changes. Everything ends when standard input
does, so a killed test leaves nothing behind. A line `sync` on standard input is answered by `ok` as soon as all that
has reached the servers so far stands in DIR/hits.log.

Started by root it uses no user namespace; started by anybody else it makes one, with the caller as uid 0 in it.
"""

import asyncio
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys

import hosts
import servers

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def check(what, result):
    if result != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def unshare(flags):
    check("unshare", LIBC.unshare(flags))


def mount(source, target, kind, flags):
    enc = lambda s: None if s is None else os.fsencode(s)
    check(f"mount {source} on {target}", LIBC.mount(enc(source), enc(target), enc(kind), ctypes.c_ulong(flags), None))


def bind(source, target):
    mount(source, target, None, MS_BIND | MS_REC)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ip_batch(text):
    subprocess.run(["ip", "-batch", "-"], input=text.encode(), check=True)


def own_user_namespace():
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def certificates(opt, private):
    """One authority and one certificate for every name, both on P-256 because that is quick to make."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    run = lambda *a: subprocess.run(["openssl", "req", "-x509", *key, *a], check=True, stderr=subprocess.DEVNULL)
    ca, ca_key = f"{opt}/ca.pem", f"{private}/ca.key"
    run("-subj", "/CN=Lab CA", "-keyout", ca_key, "-out", ca, "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    names = ",".join(f"DNS:{n}" for n in hosts.tls_names())
    run("-subj", "/CN=allowed.test", "-CA", ca, "-CAkey", ca_key, "-keyout", f"{private}/srv.key", "-out", f"{private}/srv.pem",
        "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth")


def prepare_mounts(lab, opts):
    """Own name resolution, empty homes, and /opt/lab with what the commands under test need."""
    etc = lab / "etc"
    etc.mkdir()
    (etc / "hosts").write_text(hosts.hosts_file())
    (etc / "resolv.conf").write_text(f"nameserver {hosts.DNS}\noptions timeout:1 attempts:1\n")
    # Without other sources: a resolver daemon of the real machine would be asked over its socket, past the namespace.
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n")
    opt = lab / "opt"
    for entry in os.scandir("/opt") if os.path.isdir("/opt") else ():
        there = opt / entry.name
        if entry.is_symlink():
            there.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            there.mkdir()
            bind(entry.path, there)
    tools = opt / "lab" / "bin"
    tools.mkdir(parents=True)
    for name, path in opts["bin"]:
        (tools / name).touch(0o755)
        bind(path, tools / name)
    rust = opts["rust"]
    if rust and not rust.startswith("/usr"):
        (opt / "lab" / "rust").mkdir()
        bind(rust, opt / "lab" / "rust")
    bind(opt, "/opt")
    for name in ("hosts", "resolv.conf", "nsswitch.conf"):
        target = os.path.realpath(f"/etc/{name}")
        if os.path.exists(target):
            bind(etc / name, target)
    bind(lab / "home", opts["home"])
    if os.getuid() == 0 and opts["uid"] != 0 and not opts["userns"] and os.path.isdir("/root"):
        bind(lab / "root", "/root")


def outside(lab, opts, control):
    """The other end of the cable. Never returns."""
    die_with_parent()
    unshare(CLONE_NEWNET)
    control.send(b"u")  # unshared
    control.recv(1)  # the cable is in
    ip_batch(hosts.outside_links())
    pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    asyncio.run(servers.outside(lab, opts, control))
    os._exit(0)


async def user_side(lab, opts, control):
    await servers.user_side(lab)
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(control, 1) == b"r", "a test host did not start"
    print(f"ready {os.getpid()}", flush=True)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        if line.strip() == b"sync":
            await loop.sock_sendall(control, b"s")
            await loop.sock_recv(control, 1)
            await servers.settle()
            print("ok", flush=True)


def options(argv):
    lab, uid, gid, home = pathlib.Path(argv[0]), int(argv[1]), int(argv[2]), argv[3]
    opts = {"uid": uid, "gid": gid, "home": home, "ssh": False, "bin": [], "rust": "", "userns": os.getuid() != 0}
    rest = iter(argv[4:])
    for arg in rest:
        if arg == "--ssh":
            opts["ssh"] = True
        elif arg == "--user-bin":
            opts["bin"].append(next(rest).split("=", 1))
        elif arg == "--rust":
            opts["rust"] = next(rest)
        else:
            sys.exit(f"lab.py: unknown option {arg}")
    return lab, opts


def main():
    lab, opts = options(sys.argv[1:])
    die_with_parent()
    if os.getppid() == 1:
        sys.exit("lab.py: the test that started this is gone")
    if opts["userns"]:
        own_user_namespace()
    # The next process made is pid 1 of the outside: with it ends every server it has started.
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    prepare_mounts(lab, opts)
    (lab / "private").mkdir(mode=0o700)
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        outside(lab, opts, there)
    there.close()
    certificates(lab / "opt" / "lab", lab / "private")
    here.recv(1)
    ip_batch(hosts.user_links(1))  # as `ip`, which is born into that pid namespace, counts
    here.send(b"c")
    here.setblocking(False)
    try:
        asyncio.run(user_side(lab, opts, here))
    finally:
        os.kill(child, signal.SIGKILL)


main()
