"""The test hosts: HTTP(S) origin, raw TCP, name server, traps, package indexes, git. Everything they see goes to hits.log."""

import asyncio
import base64
import hashlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess

import hosts
import packages

LOG = None
CONNECTIONS = 0


def log(*words):
    LOG.write(" ".join(str(w) for w in words) + "\n")


def open_log(lab):
    global LOG
    LOG = open(lab / "hits.log", "a", buffering=1)


def label(writer):
    return hosts.LABEL.get(writer.get_extra_info("sockname")[0], "?")


async def settle():
    """Lets the loop take every connection and datagram that has already arrived."""
    for _ in range(3):
        await asyncio.sleep(0.002)


# ---- HTTP ----------------------------------------------------------------------------------------------------------

class Request:
    def __init__(self, line, headers):
        self.method, self.target, self.version = (line.split(" ") + ["", ""])[:3]
        self.path, _, self.query = self.target.partition("?")
        self.headers = headers

    def get(self, name, default=""):
        return self.headers.get(name, default)


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return Request(head[0], headers)


async def read_body(request, reader, sink):
    """Feeds the body to `sink`; returns its length."""
    size = 0
    if "chunked" in request.get("transfer-encoding").lower():
        while step := int((await reader.readline()).split(b";")[0], 16):
            sink(await reader.readexactly(step))
            await reader.readexactly(2)
            size += step
        while (await reader.readline()).strip():
            pass  # trailers
    else:
        left = int(request.get("content-length", "0") or 0)
        while left:
            data = await reader.read(min(left, 1 << 18))
            if not data:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(data)
            size += len(data)
            sink(data)
    return size


def plain(body, status="200 OK", kind="text/plain", extra=""):
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


async def answer_big(request, writer):
    left = int(request.query)
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
    block = b"x" * (1 << 18)
    while left:
        step = min(left, len(block))
        writer.write(block[:step])
        left -= step
        await writer.drain()


async def answer_sse(_request, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for n in range(4):
        writer.write(b"data: %d\n\n" % n)
        await writer.drain()
        await asyncio.sleep(0.3)
    raise ConnectionError


async def answer_cut(_request, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npartial")
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionError


async def answer_ws(request, writer, reader):
    key = request.get("sec-websocket-key").encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    writer.write(b"\x81\x05first")
    await writer.drain()
    while request.query != "bye" and (data := await reader.read(4096)):  # frames come back as they are
        writer.write(data)
        await writer.drain()
    raise ConnectionError


STREAMED = {"/big": answer_big, "/sse": answer_sse, "/cut": answer_cut}


def fixed(request, who, body, requests_here):
    """The answers that are one buffer."""
    path = request.path
    if path == "/chunk":
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-T: yes\r\n\r\n"
    if path == "/redir":
        return plain(b"", "302 Found", extra="Location: http://denied.test/\r\n")
    if path == "/204":
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    if path == "/status":
        return plain(b"as asked\n", f"{request.query} As Asked")
    if path == "/headers":
        return plain(json.dumps(request.headers).encode(), kind="application/json")
    if path == "/keep":
        return plain(b"request %d on connection %d\n" % requests_here)
    if request.method == "HEAD":
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
    text = f"ORIGIN {who} host={request.get('host')} target={request.target} len={body[0]} sha={body[1]}\n"
    return plain(text.encode())


async def git_backend(lab, request, body, writer):
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GIT_PROJECT_ROOT": str(lab / "git"), "GIT_HTTP_EXPORT_ALL": "1",
        "HOME": str(lab / "git"), "REQUEST_METHOD": request.method, "PATH_INFO": request.path, "QUERY_STRING": request.query,
        "CONTENT_TYPE": request.get("content-type"), "HTTP_CONTENT_ENCODING": request.get("content-encoding"),
        "GIT_PROTOCOL": request.get("git-protocol"), "REMOTE_USER": "lab", "REMOTE_ADDR": "198.18.0.1", "CONTENT_LENGTH": str(len(body)),
    }
    child = await asyncio.create_subprocess_exec("git", "http-backend", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = await child.communicate(body)
    head, _, content = out.partition(b"\r\n\r\n")
    lines = [l for l in head.decode("latin1").split("\r\n") if l]
    status = next((l.split(" ", 1)[1] for l in lines if l.lower().startswith("status:")), "200 OK")
    kind = next((l.split(" ", 1)[1] for l in lines if l.lower().startswith("content-type:")), "text/plain")
    writer.write(plain(content, status, kind))


class Http:
    def __init__(self, lab):
        self.lab = lab

    async def answer(self, request, reader, writer, number, connection):
        who, digest, keep = label(writer), hashlib.sha256(), []
        host = request.get("host").partition(":")[0].lower()
        if request.get("expect").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        is_git = who == "git"
        sink = keep.append if is_git else digest.update
        size = await read_body(request, reader, sink)
        peer = writer.get_extra_info("peername")[0]
        log("HTTP", who, request.method, request.target, f"host={request.get('host', '-')}", f"len={size}", f"sha={digest.hexdigest()[:12]}", f"peer={peer}")
        index = packages.INDEX.get(host)
        if is_git:
            await git_backend(self.lab, request, b"".join(keep), writer)
        elif index:
            scheme = "https" if writer.get_extra_info("ssl_object") else "http"
            found = index(f"{scheme}://{request.get('host')}", request.path)
            writer.write(plain(found[1], kind=found[0]) if found else plain(b"no such package\n", "404 Not Found"))
        elif request.path == "/ws" and request.get("sec-websocket-key"):
            await answer_ws(request, writer, reader)
        elif request.path in STREAMED:
            await STREAMED[request.path](request, writer)
        else:
            writer.write(fixed(request, who, (size, digest.hexdigest()), (number, connection)))
        await writer.drain()

    async def __call__(self, reader, writer):
        global CONNECTIONS
        CONNECTIONS += 1
        connection, number = CONNECTIONS, 0
        log("CONN", label(writer), writer.get_extra_info("sockname")[1])
        try:
            while True:
                request = await read_request(reader)
                number += 1
                await self.answer(request, reader, writer, number, connection)
                if request.get("connection").lower() == "close" or request.version == "HTTP/1.0":
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError, ssl.SSLError):
            pass
        finally:
            writer.close()


# ---- other protocols -----------------------------------------------------------------------------------------------

async def pump(reader, writer):
    """One direction of a tunnel, its end included."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
    except (ConnectionError, OSError, ssl.SSLError):
        writer.close()


async def corporate(reader, writer):
    """The proxy of a corporate network: wants a login, looks names up itself, opens tunnels and forwards plain HTTP."""
    kind = "tls" if writer.get_extra_info("ssl_object") else "plain"
    try:
        request = await read_request(reader)
        given = request.get("proxy-authorization").removeprefix("Basic ")
        log("PROXY", kind, request.method, request.target, "login" if given else "no-login")
        if base64.b64decode(given).decode("latin1") != hosts.LOGIN:
            writer.write(plain(b"who are you\n", "407 Login Please", extra='Proxy-Authenticate: Basic realm="corp"\r\n'))
            return
        tunnel = request.method == "CONNECT"
        authority, _, path = request.target.removeprefix("http://").partition("/")
        name, _, port = authority.partition(":")
        if name == "blocked.test":
            writer.write(plain(b"no games\n", "403 Blocked By Corp"))
            return
        known = {n: a for a, names in hosts.NAMES.items() for n in names.split()} | hosts.BEHIND
        try:
            far_reader, far_writer = await asyncio.open_connection(name if name[0].isdigit() else known[name], int(port or 80))
        except (OSError, KeyError):
            writer.write(plain(b"nobody there\n", "502 Nobody There"))
            return
        if tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(f"{request.method} /{path} HTTP/1.1\r\nHost: {request.get('host')}\r\nConnection: close\r\n\r\n".encode())
        await asyncio.gather(pump(far_reader, writer), pump(reader, far_writer))
        far_writer.close()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def corporate_socks(reader, writer):
    """The same as a SOCKS5 proxy, which wants the same login and takes names only."""
    try:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        writer.write(b"\x05\x02" if 2 in methods else b"\x05\xff")
        if 2 not in methods:
            log("PROXY", "socks", "no-login")
            return
        parts = []
        await reader.readexactly(1)
        for _ in range(2):
            parts.append(await reader.readexactly((await reader.readexactly(1))[0]))
        if b":".join(parts).decode("latin1") != hosts.LOGIN:
            writer.write(b"\x01\x01")
            return
        writer.write(b"\x01\x00")
        _, command, _, kind = await reader.readexactly(4)
        name = (await reader.readexactly((await reader.readexactly(1))[0])).decode() if kind == 3 else "?"
        port = int.from_bytes(await reader.readexactly(2), "big")
        log("PROXY", "socks", command, f"{name}:{port}", "login")
        known = {n: a for a, names in hosts.NAMES.items() for n in names.split()} | hosts.BEHIND
        if name == "blocked.test" or name not in known:
            writer.write(b"\x05\x02\0\x01\0\0\0\0\0\0")
            return
        far_reader, far_writer = await asyncio.open_connection(known[name], port)
        writer.write(b"\x05\0\0\x03\x04corp\0\0")
        await asyncio.gather(pump(far_reader, writer), pump(reader, far_writer))
        far_writer.close()
    except (asyncio.IncompleteReadError, ConnectionError, OSError, ValueError):
        pass
    finally:
        writer.close()


async def raw(reader, writer):
    """Speaks first, reads to the end, then answers: server-first and half-close in one."""
    log("RAW", label(writer), writer.get_extra_info("sockname")[1])
    digest, size = hashlib.sha256(), 0
    try:
        writer.write(b"BANNER lab\r\n")
        await writer.drain()
        while data := await reader.read(1 << 18):
            size += len(data)
            digest.update(data)
        writer.write(f"GOT {size} {digest.hexdigest()}\n".encode())
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def trap(_reader, writer):
    log("TRAP", label(writer), f"port={writer.get_extra_info('sockname')[1]}")
    writer.write(b"TRAPPED\n")
    writer.close()


async def loopback(_reader, writer):
    log("LOOPBACK", *writer.get_extra_info("sockname")[:2])
    try:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nHOST-LOOPBACK\n")
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def unix(_reader, writer):
    log("UNIX")
    writer.write(b"SOCK-REACHED\n")
    await writer.drain()
    writer.close()


class Dns(asyncio.DatagramProtocol):
    """Answers A and AAAA from the table; NXDOMAIN for every other name."""

    turns = {}

    def connection_made(self, transport):
        self.transport = transport

    def pick(self, name, answers):
        if isinstance(answers, tuple):
            turn = Dns.turns[name] = Dns.turns.get(name, -1) + 1
            return answers[turn % len(answers)]
        return answers

    def datagram_received(self, data, peer):
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin1"))
            at += data[at] + 1
        name, kind = ".".join(labels).lower(), struct.unpack(">H", data[at + 1:at + 3])[0]
        log("DNS", name, f"type={kind}", f"peer={peer[0]}")
        known = name in hosts.RECORDS_A or name in hosts.RECORDS_AAAA
        table, family = {1: (hosts.RECORDS_A, socket.AF_INET), 28: (hosts.RECORDS_AAAA, socket.AF_INET6)}.get(kind, ({}, 0))
        found = [socket.inet_pton(family, a) for a in self.pick(name, table.get(name, []))]
        body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(a)) + a for a in found)
        flags = b"\x81\x80" if known else b"\x81\x83"
        self.transport.sendto(data[:2] + flags + b"\0\x01" + struct.pack(">H", len(found)) + b"\0\0\0\0" + data[12:at + 5] + body, peer)


def start_sshd(lab, opts):
    """An OpenSSH server for one account, run by that account: needs neither root nor PAM."""
    ssh = lab / "ssh"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / "host"], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", ssh / "id"], check=True)
    (ssh / "authorized").write_bytes((ssh / "id.pub").read_bytes())
    public = " ".join((ssh / "host.pub").read_text().split()[:2])
    (ssh / "known_hosts").write_text(f"git.test,github.com,{hosts.GIT} {public}\n")
    (ssh / "config").write_text(
        f"ListenAddress {hosts.GIT}:22\nHostKey {ssh}/host\nAuthorizedKeysFile {ssh}/authorized\nPidFile none\nUsePAM no\n"
        "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\n"
    )
    command = ["/usr/sbin/sshd", "-D", "-f", str(ssh / "config"), "-E", str(ssh / "log")]
    if opts["userns"]:  # uid 0 here is the caller; sshd as uid 0 would want to become other users
        command = ["unshare", "--user", f"--map-user={opts['uid']}", f"--map-group={opts['gid']}", *command]
    subprocess.Popen(command, stdin=subprocess.DEVNULL)


async def wait_for(address, port):
    for _ in range(400):
        try:
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.005)
    raise OSError(f"nothing listens on {address}:{port}")


def tls(lab):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(lab / "private" / "srv.pem", lab / "private" / "srv.key")
    context.set_alpn_protocols(["http/1.1"])
    context.sni_callback = lambda _s, name, _c: log("SNI", name)
    return context


async def outside(lab, opts, control):
    open_log(lab)
    loop, serve, http, context = asyncio.get_running_loop(), asyncio.start_server, Http(lab), tls(lab)
    for address in (hosts.ALLOWED, hosts.DENIED, hosts.GIT, hosts.PACKAGES, hosts.SIX, hosts.METADATA, hosts.PRIVATE):
        await serve(http, address, 80, backlog=512)
        await serve(http, address, 443, ssl=context, backlog=512)
    for address in (hosts.ALLOWED, hosts.DENIED):
        for port in (22, 25, 3306, 8443):
            await serve(trap, address, port)
    await serve(trap, hosts.DENIED, 53)
    await serve(corporate, hosts.PROXY, 3128, backlog=512)
    await serve(corporate, hosts.PROXY, 3129, ssl=context, backlog=512)
    await serve(corporate_socks, hosts.PROXY, 1080)
    await serve(raw, hosts.ALLOWED, 7000)
    # Where a tunnel is not read request by request.
    await serve(http, hosts.ALLOWED, 7080, backlog=512)
    await serve(raw, hosts.SIX, 7000)
    for address, port in ((hosts.DNS, 53), (hosts.DENIED, 5353)):
        await loop.create_datagram_endpoint(Dns, local_addr=(address, port))
    if not opts["userns"]:
        os.setgroups([opts["gid"]])
        os.setresgid(*[opts["gid"]] * 3)
        os.setresuid(*[opts["uid"]] * 3)
    if opts["ssh"]:
        start_sshd(lab, opts)
        await wait_for(hosts.GIT, 22)
    control.setblocking(False)
    await loop.sock_sendall(control, b"r")
    while await loop.sock_recv(control, 1):
        await settle()
        await loop.sock_sendall(control, b"s")


async def user_side(lab):
    """Services of the user's own machine, which the sandbox must not reach."""
    open_log(lab)
    for address, port in (("127.0.0.1", 9099), ("127.0.0.1", 80), ("::1", 9099), ("198.18.0.1", 9099)):
        await asyncio.start_server(loopback, address, port)
    path = lab / "opt" / "lab" / "agent.sock"
    await asyncio.start_unix_server(unix, path)
    os.chmod(path, 0o777)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0ccbox-lab")
    abstract.listen(5)
    await asyncio.start_unix_server(unix, sock=abstract)
