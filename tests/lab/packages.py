"""The package indexes: one tiny package each for PyPI, npm, cargo, Go, Maven and apt, built in memory when asked for."""

import base64
import functools
import gzip
import hashlib
import io
import json
import tarfile
import zipfile

VERSION = "1.0.0"


def _tar_gz(files):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue(), mtime=0)


def _zip(files):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as z:
        for name, text in files.items():
            z.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), text)
    return raw.getvalue()


WHEEL = "ccboxlab-1.0.0-py3-none-any.whl"


@functools.cache
def wheel():
    files = {
        "ccboxlab.py": "def answer():\n    return 'from the wheel'\n",
        "ccboxlab-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ccboxlab\nVersion: 1.0.0\n",
        "ccboxlab-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    return _zip({**files, "ccboxlab-1.0.0.dist-info/RECORD": record + "ccboxlab-1.0.0.dist-info/RECORD,,\n"})


@functools.cache
def npm_tarball():
    manifest = json.dumps({"name": "ccbox-lab", "version": VERSION, "main": "index.js"})
    return _tar_gz({"package/package.json": manifest, "package/index.js": "module.exports = () => 'from the tarball'\n"})


@functools.cache
def crate():
    return _tar_gz({
        f"ccbox-lab-{VERSION}/Cargo.toml": f'[package]\nname = "ccbox-lab"\nversion = "{VERSION}"\nedition = "2018"\n',
        f"ccbox-lab-{VERSION}/src/lib.rs": 'pub fn answer() -> &\'static str { "from the crate" }\n',
    })


GO_MOD = "module example.test/lab\n\ngo 1.16\n"


@functools.cache
def go_zip():
    return _zip({
        "example.test/lab@v1.0.0/go.mod": GO_MOD,
        "example.test/lab@v1.0.0/lab.go": 'package lab\n\nfunc Answer() string { return "from the module" }\n',
    })


def npm(base, path):
    if path == "/ccbox-lab":
        tarball = npm_tarball()
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        dist = {"tarball": f"{base}/ccbox-lab/-/ccbox-lab-1.0.0.tgz", "integrity": integrity, "shasum": hashlib.sha1(tarball).hexdigest()}
        version = {"name": "ccbox-lab", "version": VERSION, "main": "index.js", "dist": dist}
        return "application/json", json.dumps({"name": "ccbox-lab", "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}).encode()
    if path == "/ccbox-lab/-/ccbox-lab-1.0.0.tgz":
        return "application/octet-stream", npm_tarball()
    return None


def pypi(base, path):
    if path == "/simple/ccboxlab/":
        link = f"{base}/files/{WHEEL}#sha256={hashlib.sha256(wheel()).hexdigest()}"
        return "text/html", f'<!DOCTYPE html><html><body><a href="{link}">{WHEEL}</a></body></html>'.encode()
    if path == f"/files/{WHEEL}":
        return "application/octet-stream", wheel()
    return None


def cargo(base, path):
    if path == "/config.json":
        dl = base.replace("index.crates.io", "static.crates.io") + "/crates"
        return "application/json", json.dumps({"dl": dl, "api": base}).encode()
    if path == "/cc/bo/ccbox-lab":
        line = {"name": "ccbox-lab", "vers": VERSION, "deps": [], "cksum": hashlib.sha256(crate()).hexdigest(), "features": {}, "yanked": False}
        return "text/plain", json.dumps(line).encode() + b"\n"
    if path == f"/crates/ccbox-lab/{VERSION}/download":
        return "application/gzip", crate()
    return None


def go(_base, path):
    at = "/example.test/lab/@v/"
    answers = {
        at + "list": b"v1.0.0\n",
        at + "v1.0.0.info": json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}).encode(),
        at + "v1.0.0.mod": GO_MOD.encode(),
        at + "v1.0.0.zip": go_zip(),
    }
    return ("application/octet-stream", answers[path]) if path in answers else None


def maven(_base, path):
    at = "/test/lab/parent/1/parent-1.pom"
    pom = b"<project><modelVersion>4.0.0</modelVersion><groupId>test.lab</groupId><artifactId>parent</artifactId>" \
        b"<version>1</version><packaging>pom</packaging><properties><said>from-the-parent</said></properties></project>"
    answers = {at: pom, at + ".sha1": hashlib.sha1(pom).hexdigest().encode()}
    return ("text/xml", answers[path]) if path in answers else None


def apt(_base, path):
    deb = b"from the archive\n"
    index = f"Package: ccbox-lab\nVersion: {VERSION}\nArchitecture: all\nMaintainer: lab\nDescription: lab\n" \
        f"Filename: ./ccbox-lab_{VERSION}_all.deb\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n"
    answers = {"/Packages": index.encode(), f"/ccbox-lab_{VERSION}_all.deb": deb}
    path = path.replace("/./", "/")
    return ("application/octet-stream", answers[path]) if path in answers else None


INDEX = {
    "maven.test": maven, "apt.test": apt,
    "npm.test": npm, "registry.npmjs.org": npm,
    "pypi.test": pypi, "pypi.org": pypi, "files.pythonhosted.org": pypi,
    "crates.test": cargo, "index.crates.io": cargo, "static.crates.io": cargo,
    "goproxy.test": go, "proxy.golang.org": go,
}
