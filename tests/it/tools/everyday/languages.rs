//! Interpreters and their package managers, without a network.

use super::{Tool, loose, tool};

const NODE: &str = r"cat >a.js <<'X'
const fs = require('fs'), path = require('path'), os = require('os');
fs.mkdirSync('d/e/f', { recursive: true }); fs.writeFileSync('d/a', 'a'); fs.appendFileSync('d/a', 'b'); fs.copyFileSync('d/a', 'd/b');
fs.renameSync('d/b', 'd/c'); fs.linkSync('d/c', 'd/l'); fs.symlinkSync('c', 'd/s'); fs.truncateSync('d/a', 1); fs.chmodSync('d/a', 0o600);
fs.utimesSync('d/a', 1e9, 1e9); fs.writeFileSync('excl', '', { flag: 'wx' });
try { fs.writeFileSync('excl', '', { flag: 'wx' }); } catch (e) { console.log(e.code); }
try { fs.mkdirSync('d'); } catch (e) { console.log(e.code); }
const t = fs.mkdtempSync(path.join(os.tmpdir(), 'x-')); fs.writeFileSync(path.join(t, 'y'), 'y'); fs.rmSync(t, { recursive: true });
fs.cpSync('d', 'copy', { recursive: true }); fs.rmSync('copy/e', { recursive: true });
const w = fs.createWriteStream('stream'); for (let i = 0; i < 1000; i++) w.write(i + '\n');
w.end(async () => {
    const h = await fs.promises.open('h', 'w+'); await h.write('abc'); await h.truncate(2); await h.sync(); await h.close();
    await Promise.all([...Array(50).keys()].map(i => fs.promises.writeFile('p' + i, String(i))));
    await Promise.all([...Array(50).keys()].filter(i => i % 2).map(i => fs.promises.unlink('p' + i)));
    const seen = new Promise(r => { const s = fs.watch('d', (e, f) => { if (f == 'seen') { s.close(); r(f); } }); });
    fs.writeFileSync('d/seen', ''); console.log(await seen);
});
X";

const PYTHON: &str = r"cat >a.py <<'X'
import mmap, multiprocessing, os, pathlib, shutil, sqlite3, subprocess, tempfile, zipfile, fcntl, socket
p = pathlib.Path('d/e'); p.mkdir(parents=True); (p / 'f').write_text('f'); (p / 'f').rename(p / 'g'); (p / 'l').symlink_to('g'); os.link(p / 'g', p / 'h')
with tempfile.NamedTemporaryFile(dir='.') as f: f.write(b'x'); f.flush(); print(os.path.exists(f.name))
with tempfile.TemporaryFile(dir='.') as f: f.write(b'x'); print(os.fstat(f.fileno()).st_nlink)
with tempfile.TemporaryDirectory() as t: pathlib.Path(t, 'x').write_text('x')
with tempfile.TemporaryDirectory(dir='.') as t: pathlib.Path(t, 'x').write_text('x')
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640); os.write(fd, b'tmp'); os.link(f'/proc/self/fd/{fd}', 'named', src_dir_fd=fd, follow_symlinks=True); os.close(fd)
shutil.copytree('d', 'c', symlinks=True); shutil.move('c', 'm'); shutil.rmtree('m/e'); shutil.make_archive('z', 'zip', 'd'); shutil.unpack_archive('z.zip', 'u'); os.unlink('z.zip')
d = os.open('d', os.O_RDONLY); f = os.open('rel', os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=d); os.write(f, b'r'); os.close(f); os.rename('rel', 'rel2', src_dir_fd=d, dst_dir_fd=d); os.mkdir('sub', dir_fd=d)
with open('mm', 'w+b') as f: f.truncate(100); m = mmap.mmap(f.fileno(), 100); m[0:5] = b'hello'; m.flush(); m.close()
c = sqlite3.connect('db'); c.execute('create table t(a)'); c.execute('insert into t values(1)'); c.commit(); print(c.execute('select * from t').fetchall()); c.close(); os.unlink('db')
os.utime('mm', (1e9, 1e9)); os.chmod('mm', 0o604); os.truncate('mm', 6); os.replace('mm', 'mm2')
f = open('lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(subprocess.call(['true']))
def work(i): pathlib.Path(f'w{i}').write_text(str(i)); return i
if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool: print(sum(pool.map(work, range(40))))
    a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))
    for bad in ('none/x', 'd', 'named/x'):
        try: open(bad, 'w')
        except OSError as e: print(e.errno)
X";

/// A package with a build backend of its own, so that nothing has to be fetched.
const PACKAGE: &str = r#"mkdir -p pkg/small; echo 'def answer(): return 42' >pkg/small/__init__.py
cat >pkg/pyproject.toml <<'X'
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "small"
version = "1.0"
X
cat >pkg/backend.py <<'X'
import zipfile
def build_wheel(where, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(where + '/small-1.0-py3-none-any.whl', 'w') as z:
        z.write('small/__init__.py')
        z.writestr('small-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: small\nVersion: 1.0\n')
        z.writestr('small-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        z.writestr('small-1.0.dist-info/RECORD', '')
    return 'small-1.0-py3-none-any.whl'
X"#;

const NPM: &str = r#"mkdir lib app; printf '{ "name": "lib", "version": "1.0.0", "bin": { "lib": "cli.js" } }' >lib/package.json; echo 'module.exports = () => 42' >lib/index.js
printf '#!/usr/bin/env node\nconsole.log(require("./index.js")())\n' >lib/cli.js; printf '{ "name": "app", "version": "1.0.0", "scripts": { "go": "lib" } }' >app/package.json"#;

#[rustfmt::skip]
pub(super) const TOOLS: &[Tool] = &[
    tool("node", NODE, "node a.js"),
    loose("npm pack, install", &["app/node_modules/.package-lock.json", "app/package-lock.json"], NPM,
        "export npm_config_cache=$TMPDIR/npm npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_userconfig=$TMPDIR/none npm_config_globalconfig=/dev/null
        (cd lib; npm pack --silent --pack-destination ..); cd app; npm install --silent ../lib-1.0.0.tgz; npm run --silent go; npm ci --silent; ./node_modules/.bin/lib; npm uninstall --silent lib; npm install --silent --install-links=false ../lib; node -p 'require(\"lib\")()'"),
    loose("python3", &["z.zip"], PYTHON, "python3 a.py; python3 -m compileall -q -d x d u >/dev/null; python3 -m zipfile -c q.zip d/e/g; rm q.zip; echo 'import a_module' >b.py; echo 'x = 1' >a_module.py; PYTHONDONTWRITEBYTECODE=1 python3 b.py; python3 -c 'import fileinput\nfor l in fileinput.input(\"b.py\", inplace=True): print(l.upper(), end=\"\")'"),
    loose("pip install into a venv", &["venv", "pkg/build", "pkg/small.egg-info"], PACKAGE,
        "export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1; /usr/bin/python3 -m venv venv; ./venv/bin/pip install -q --no-compile ./pkg; ./venv/bin/python -c 'import small; print(small.answer())'; ./venv/bin/pip list --format=freeze | grep small; ./venv/bin/pip uninstall -q -y small"),
    tool("perl", "", "perl -e 'use File::Temp qw(tempfile tempdir); use File::Path qw(make_path remove_tree); use File::Copy; my ($h, $n) = tempfile(DIR => \".\", UNLINK => 1); print $h \"x\"; close $h; my $d = tempdir(CLEANUP => 1); make_path(\"a/b/c\"); open F, \"+>\", \"a/f\"; flock F, 2; print F \"y\"; close F; copy(\"a/f\", \"a/g\"); move(\"a/g\", \"a/b/h\"); remove_tree(\"a/b/c\"); sysopen F, \"s\", 0101, 0600 or die; close F; open F, \"|-\", \"cat >piped\"; print F \"p\"; close F'"),
    tool("bash", "", "echo x >a; . ./a 2>/dev/null || true; cat <(echo one) <(echo two) >subst; cat <<<string >here; coproc cat >co; echo c >&\"${COPROC[1]}\"; eval \"exec ${COPROC[1]}>&-\"; wait; mapfile -t m <subst; echo ${m[1]}; shopt -s globstar; mkdir -p p/q; touch p/q/z; echo **/z; time true 2>/dev/null; read -r l <subst; echo $l; ( trap 'echo t >trapped' EXIT ); exec 7>seven; echo 7 >&7"),
    tool("zsh", "", "zsh -f -c 'echo a >x >y; echo one >>|x; cat =(echo temporary) >z; setopt extendedglob; mkdir -p d/e; touch d/e/f; print -l **/*(.) | wc -l; mv x(N) d/'"),
    tool("fish", "", "HOME=$TMPDIR XDG_DATA_HOME=$TMPDIR XDG_CONFIG_HOME=$TMPDIR fish --no-config -c 'echo a >x; echo b >>x; cat (echo c | psub) >y; mkdir -p d/e; for i in (seq 5); echo $i >d/$i; end; count d/*'"),
    tool("timeout, setsid, nice, nohup, env", "", "timeout 5 sh -c 'echo a >a'; timeout 0.2 sleep 5 || echo $?; setsid -w sh -c 'echo b >b'; nice -n 5 sh -c 'echo c >c'; nohup sh -c 'echo d >d' 2>/dev/null; env -i /bin/sh -c 'echo e >e'; (ulimit -f 1; head -c 100000 /dev/zero >big) 2>/dev/null || echo limit; stat -c %s big"),
];
