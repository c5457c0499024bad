"""Clients that behave badly, in steps: prints a line after each, and waits for one before the next."""
import os, socket, struct, subprocess, sys, threading, time

PROXY = ("127.0.0.1", int(os.environ["http_proxy"].rpartition(":")[2]))
RESET = struct.pack("ii", 1, 0)


def step(*words):
    print(*words, flush=True)
    sys.stdin.readline()


def tunnel():
    s = socket.create_connection(PROXY, 5)
    s.settimeout(2)
    s.sendall(b"CONNECT allowed.test:7000 HTTP/1.1\r\n\r\n")
    return s, s.recv(100).startswith(b"HTTP/1.1 200")


def works():
    for _ in range(100):
        if subprocess.run(["curl", "-s", "-m5", "http://allowed.test/"], capture_output=True).stdout.startswith(b"ORIGIN"):
            return True
        time.sleep(0.1)
    return False


def crowd(count):
    """`count` tunnels from a process of its own, open until its standard input ends; says how many there are."""
    open_ = 0
    keep = []
    for _ in range(count):
        try:
            s, ok = tunnel()
            keep.append(s)
            open_ += ok
        except OSError:  # nobody answers any more
            break
    print(open_, flush=True)
    sys.stdin.read()


def exhaust():
    works()
    step("base")
    crowds = [subprocess.Popen([sys.executable, __file__, "crowd", "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    step(sum(int(c.stdout.readline()) for c in crowds))
    for c in crowds:
        c.stdin.close()
        c.wait()
    step(works())


def rude():
    works()
    step("base")
    kinds = [
        lambda s: s.sendall(b"GET http://allo"),
        lambda s: s.sendall(b"\x05"),
        lambda s: s.sendall(b"CONNECT allowed.test:7000 HTTP/1.1\r\n\r\n" + b"x" * 100000),
        lambda s: s.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01\x02\x00\x01"),
        lambda s: s.sendall(b"POST http://allowed.test/up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc"),
        lambda s: s.sendall(b"GET http://allowed.test/big?400000000 HTTP/1.1\r\nHost: x\r\n\r\n"),
        lambda s: None,
    ]
    for turn in range(210):
        s = socket.create_connection(PROXY, 5)
        kinds[turn % len(kinds)](s)
        if turn % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if turn % 3 == 0:
            s.shutdown(socket.SHUT_WR)
        if turn % 10 == 0:
            time.sleep(0.02)
        s.close()
    step(works())


def whole(s):
    """Whether two megabytes come through an open tunnel to the web server."""
    s.sendall(b"GET /big?2000000 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
    got = b""
    while b"\r\n\r\n" not in got:
        got += s.recv(65536)
    left = 2000000 - len(got.partition(b"\r\n\r\n")[2])
    while left > 0 and (some := s.recv(min(left, 65536))):
        left -= len(some)
    return left == 0


def rest():
    works()
    tunnels = []
    for _ in range(20):
        s = socket.create_connection(PROXY, 5)
        s.settimeout(10)
        s.sendall(b"CONNECT allowed.test:7080 HTTP/1.1\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        tunnels.append(s)
    step("base")
    step([whole(s) for s in tunnels].count(True))
    step([whole(s) for s in tunnels].count(True))


def short():
    """Connections that live for one question, as fast as they come: by tunnel, by request, by SOCKS, refused, and without a word."""
    works()
    step("base")
    tunnel_ = b"CONNECT allowed.test:80 HTTP/1.1\r\n\r\n"
    request = b"GET /small HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"
    socks = b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0callowed.test\x00\x50"
    kinds = [
        (tunnel_ + request, b"ORIGIN"),
        (b"GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"ORIGIN"),
        (socks + request, b"ORIGIN"),
        (b"CONNECT denied.test:443 HTTP/1.1\r\nConnection: close\r\n\r\n", b" 403 "),
        (b"", b""),
    ]
    wrong = []

    def client(first):
        for turn in range(first, first + 250):
            sent, want = kinds[turn % len(kinds)]
            try:
                s = socket.create_connection(PROXY, 10)
                s.settimeout(10)
                s.sendall(sent)
                got = b""
                while want and want not in got and (some := s.recv(65536)):
                    got += some
                s.close()
            except OSError as e:
                got = repr(e).encode()
            if want not in got:
                wrong.append((sent[:30], got[:80]))

    clients = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    step(len(wrong), *wrong[:3])
    step(works())


crowd(int(sys.argv[2])) if sys.argv[1] == "crowd" else globals()[sys.argv[1]]()
