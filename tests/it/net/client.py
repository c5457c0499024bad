"""A client that says to the proxy exactly what it is told, also what no decent client would say.

client.py connect AUTHORITY...       CONNECT each; prints `AUTHORITY STATUS-LINE`, one a line
client.py get URL...                 GET each in absolute form, not normalised; prints `URL STATUS-LINE`
client.py socks HOST PORT...         SOCKS5 CONNECT by name; prints `HOST PORT REPLY-CODE` (-1: closed)
client.py tunnel HOW HOST PORT SIZE  HOW is http, socks or direct; sends SIZE bytes (with the request where HOW is
                                     http and SIZE < 64), half-closes, prints all that came back and the seconds it took
client.py idle N CMD...              holds N idle or half-spoken connections, then runs CMD and prints its seconds
client.py odd                        odd and broken requests; prints one line for each
client.py direct HOST:PORT...        a plain TCP connection, no proxy; prints `HOST:PORT open|ERRNO` and whether it was fast

Arguments may hold backslash escapes for bytes that argv cannot.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.parse


def raw(text):
    return text.encode().decode("unicode_escape").encode("latin1")


def proxy(*names):
    value = next(os.environ[n] for n in names if n in os.environ)
    url = urllib.parse.urlparse(value)
    s = socket.create_connection((url.hostname, url.port), 5)
    s.settimeout(5)
    return s


def http_proxy():
    return proxy("HTTP_PROXY", "http_proxy")


def status(s):
    try:
        data = b""
        while b"\r\n" not in data:
            part = s.recv(4096)
            if not part:
                break
            data += part
        return data.split(b"\r\n")[0].decode("latin1") or "closed"
    except socket.timeout:
        return "TIMEOUT"
    except OSError as e:
        return f"closed ({type(e).__name__})"


def connect(authorities):
    for text in authorities:
        s = http_proxy()
        s.sendall(b"CONNECT " + raw(text) + b" HTTP/1.1\r\n\r\n")
        print(text[:60], status(s), flush=True)
        s.close()


def get(urls):
    for text in urls:
        s = http_proxy()
        s.sendall(b"GET " + raw(text) + b" HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
        print(text[:60], status(s), flush=True)
        s.close()


def socks_open(host, port):
    s = proxy("CCBOX_SOCKS_PROXY")
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    s.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host + port.to_bytes(2, "big"))
    try:
        reply = s.recv(10)
    except OSError:
        reply = b""
    return s, reply[1] if len(reply) > 1 else -1


def socks(args):
    for host, port in zip(args[::2], args[1::2]):
        s, code = socks_open(raw(host), int(port))
        print(host, port, code, flush=True)
        s.close()


def tunnel(how, host, port, size):
    payload, early = b"q" * int(size), b""
    start = time.monotonic()
    if how == "http":
        s = http_proxy()
        if len(payload) < 64:
            payload, early = b"", payload
        s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode() + early)
    elif how == "socks":
        s, code = socks_open(host.encode(), int(port))
        print("reply", code)
    else:
        s = socket.create_connection((host, int(port)), 5)
    s.settimeout(20)
    s.sendall(payload)
    s.shutdown(socket.SHUT_WR)
    data = b""
    while part := s.recv(1 << 16):
        data += part
    print(data.decode("latin1"))
    print("seconds", round(time.monotonic() - start, 1))


def idle(count, command):
    keep = []
    for n in range(int(count)):
        s = http_proxy()
        if n % 2:
            s.sendall(b"GET http://allo")
        keep.append(s)
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(done.stdout, "fast" if time.monotonic() - start < 2 else "SLOW", sep="")


ODD = {
    "64 KiB header": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX: " + b"a" * 65536 + b"\r\n\r\n",
    "100 KB target": b"GET http://allowed.test/" + b"b" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "bare LF": b"GET http://allowed.test/ HTTP/1.0\n\n",
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS record": b"\x16\x03\x01\x00\xa5" + b"x" * 0xa5,
    "SOCKS4": b"\x04\x01\x00\x50\x00\x00\x00\x01u\x00denied.test\x00",
    "SOCKS5 nonsense": b"\x05\x00" + b"\xff" * 300,
    "empty lines": b"\r\n" * 1000,
    "no target": b"GET\r\n\r\n",
    "origin form": b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    "empty header value": b"GET http://denied.test/ HTTP/1.1\r\nHost:\r\nX:\r\n\r\n",
    "two lengths": b"POST http://allowed.test/up HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "length and chunked": b"POST http://allowed.test/up HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"POST http://allowed.test/up HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "second on a connection": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\nPOST http://allowed.test/up HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "other scheme": b"GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "user info": b"GET http://allowed.test@denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "NULs": b"\0" * 512,
}


def odd():
    for name, data in ODD.items():
        s = http_proxy()
        s.settimeout(12)
        start = time.monotonic()
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = status(s)
        print(name, "|", answer, "|", "fast" if time.monotonic() - start < 3 else "slow", flush=True)
        s.close()


def direct(targets):
    for text in targets:
        host, _, port = text.rpartition(":")
        start = time.monotonic()
        try:
            socket.create_connection((host.strip("[]"), int(port)), 20).close()
            result = "open"
        except OSError as e:
            result = type(e).__name__
        print(text, result, "fast" if time.monotonic() - start < 1 else "SLOW", flush=True)


verb, rest = sys.argv[1], sys.argv[2:]
if verb == "tunnel":
    tunnel(*rest)
elif verb == "idle":
    idle(rest[0], rest[1:])
elif verb == "odd":
    odd()
else:
    {"connect": connect, "get": get, "socks": socks, "direct": direct}[verb](rest)
