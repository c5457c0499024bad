"""Who lives where: the one table of names and addresses of the laboratory.

All public addresses are documentation ranges (RFC 5737, RFC 3849), which ccbox takes for ordinary public addresses.
The names of real registries point here too, with certificates of the laboratory's own authority, so that a run with
no spec meets the baseline list exactly as it would in the world.
"""

ALLOWED, DENIED, GIT, PACKAGES, DNS = "203.0.113.10", "203.0.113.11", "203.0.113.30", "203.0.113.31", "203.0.113.53"
PROXY = "203.0.113.32"
SIX, METADATA, PRIVATE = "2001:db8::10", "169.254.169.254", "10.77.0.5"

NAMES = {
    ALLOWED: "allowed.test api.allowed.test bad.allowed.test a.b.allowed.test svc.one.allowed.test svc.one.two.allowed.test"
    " xn--bcher-kva.test evilallowed.test",
    DENIED: "denied.test allowed.test.denied.test",
    GIT: "git.test github.com",
    PACKAGES: "maven.test apt.test npm.test pypi.test crates.test goproxy.test registry.npmjs.org pypi.org files.pythonhosted.org index.crates.io"
    " static.crates.io crates.io proxy.golang.org sum.golang.org",
    PROXY: "proxy.test",
    METADATA: "meta.test",
    PRIVATE: "priv.test",
    SIX: "six.test",
    "127.0.0.1": "loop.test",
}

# What the log calls each address.
LABEL = {ALLOWED: "allowed", DENIED: "denied", GIT: "git", PACKAGES: "packages", PROXY: "proxy", SIX: "six", METADATA: "meta", PRIVATE: "priv"}

# Names that only the upstream proxy on PROXY knows, and its login. It refuses tunnels to `blocked.test`.
BEHIND = {"intranet.test": ALLOWED, "blocked.test": DENIED}
LOGIN = "corp\\me:p@ss/w:rd"

# Answers of the name server; every other name does not exist. A tuple is served in turn, one a query.
RECORDS_A = {
    "dns.test": [ALLOWED],
    "flip.test": ((ALLOWED,), ("127.0.0.1",)),
    "mixed.test": [ALLOWED, "127.0.0.1"],
}
RECORDS_AAAA = {
    "mapped.test": ["::ffff:127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "ula.test": ["fd00:ec2::254"],
}


def hosts_file():
    return "127.0.0.1 localhost\n::1 localhost\n" + "".join(f"{a} {n}\n" for a, n in NAMES.items())


def tls_names():
    return [n for a, names in NAMES.items() for n in names.split()] + ["*.allowed.test"]


def user_links(other):
    return f"""link set lo up
link add v0 type veth peer name v1 netns {other}
addr add 198.18.0.1/30 dev v0
addr add 2001:db8:77::1/64 dev v0 nodad
link set v0 up
route add default via 198.18.0.2
route add ::/0 via 2001:db8:77::2
"""


def outside_links():
    four = "".join(f"addr add {a}/32 dev lo\n" for a in (ALLOWED, DENIED, GIT, PACKAGES, PROXY, DNS, METADATA, PRIVATE))
    return f"""link set lo up
{four}addr add {SIX}/128 dev lo nodad
addr add 198.18.0.2/30 dev v1
addr add 2001:db8:77::2/64 dev v1 nodad
link set v1 up
route add default via 198.18.0.1
"""
