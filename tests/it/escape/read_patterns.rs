//! Getting at what a pattern of `deny_read` names: every way to open, move, link or execute it, and races for the name.

use std::fs;
use std::process::Stdio;

use super::{Caller, DONE, Site, Waiting, callers, checked, python, ran};

/// `keys` is read-only inside, `ws` writable; in both `*.key` and what lies in `vault` may not be read.
fn place(caller: Caller) -> Site {
    let site = Site::new(caller);
    for name in ["keys", "keys/d", "ws/d", "ws/vault", "ws/free"] {
        fs::create_dir_all(site.path(name)).unwrap();
        site.give(&site.path(name));
    }
    for name in ["keys/a.key", "keys/d/B.KEY", "ws/a.key", "ws/d/b.key"] {
        site.file(name, "SECRET\n");
    }
    site.file("ws/vault/x", "SECRET\n");
    site.file("ws/exact", "SECRET\n");
    for name in ["keys/a.txt", "ws/a.txt", "ws/free/x"] {
        site.file(name, "FREE\n");
    }
    let t = site.dir.path().to_str().unwrap();
    let spec = site.spec("").replace(
        &format!("deny_read = [\"{t}/hidden\"]"),
        &format!("deny_read = [\"{t}/hidden\", \"{t}/ws/exact\", \"*.key\", \"{t}/ws/va*/*\"]\ndeny_write = []"),
    );
    site.file(
        "spec.toml",
        &spec.replace("network_enabled", "profile = \"dev\"\nnetwork_enabled"),
    );
    site
}

/// Every way that needs no luck. Prints what it saw of each, or the errno.
const WAYS: &str = r"
import fcntl, mmap, shutil, subprocess, tempfile
T = os.environ['T']; P = tempfile.mkdtemp()
def tell(name, act):
    try: print(name, repr(act()))
    except OSError as e: print(name, e.errno)
def raw(number, *args):
    result, e = call(number, *args)
    if e: raise OSError(e, '')
    return result
def content(fd):
    try: return os.pread(fd, 100, 0)
    finally: os.close(fd)
# What works is undone, for the next one.
def moved(path, to): os.rename(path, to); seen = os.stat(to).st_size; os.rename(to, path); return seen
def linked(act): act(); os.unlink(T + '/ws/linked')
def how(path, flags, resolve=0):
    return raw(437, -100, path.encode(), ctypes.create_string_buffer(b''.join(n.to_bytes(8, 'little') for n in (flags, 0, resolve)), 24), 24)
os.symlink(T + '/ws/a.key', T + '/ws/link'); os.symlink(T + '/keys/a.key', P + '/link'); os.symlink(T + '/ws/vault', P + '/vault')
os.symlink(T + '/keys', P + '/keys')
for path in T + '/ws/a.key', T + '/ws/d/b.key', T + '/ws/vault/x', T + '/keys/a.key', T + '/keys/d/B.KEY', T + '/ws/link', P + '/link', P + '/vault/x', P + '/keys/a.key', '/proc/self/root' + T + '/ws/a.key', '/proc/self/cwd/a.key', '/proc/thread-self/cwd/../ws/a.key':
    for flags in os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR | os.O_APPEND:
        tell('open', lambda: content(os.open(path, flags)))
    tell('openat2', lambda: content(how(path, 0)))
    tell('openat2 rw', lambda: content(how(path, 2)))
    tell('copy', lambda: shutil.copyfile(path, P + '/copy') and open(P + '/copy').read())
    if path.count('ws') and not path.count('proc') and not path.count('link'):
        tell('rename', lambda: moved(path, T + '/ws/moved'))
        tell('link', lambda: linked(lambda: os.link(path, T + '/ws/linked')))
    place = os.open(path, os.O_PATH)
    for again in '/proc/self/fd/%d', '/dev/fd/%d', '/proc/self/task/%d/fd/%%d' % os.getpid(), '/proc/thread-self/fd/%d':
        for flags in os.O_RDONLY, os.O_RDWR:
            tell('reopen', lambda: content(os.open(again % place, flags)))
    tell('reopen openat2', lambda: content(how('/proc/self/fd/%d' % place, 0)))
    tell('mmap', lambda: mmap.mmap(place, 4, prot=mmap.PROT_READ)[:])
    tell('link by descriptor', lambda: linked(lambda: raw(265, place, b'', -100, (T + '/ws/linked').encode(), 0x1000)))
    tell('link by name of descriptor', lambda: linked(lambda: raw(265, -100, b'/proc/self/fd/%d' % place, -100, (T + '/ws/linked').encode(), 0x400)))
    os.close(place)
tell('dir', lambda: moved(T + '/ws/vault', T + '/ws/open'))
tell('dir exchanged', lambda: raw(316, -100, (T + '/ws/vault').encode(), -100, (T + '/ws/free').encode(), 2))
tell('dir replaced by a link', lambda: os.symlink('free', T + '/ws/vault2') and None)
tell('beneath', lambda: content(raw(437, os.open(T + '/ws', os.O_RDONLY), b'd/b.key', ctypes.create_string_buffer(b''.join(n.to_bytes(8, 'little') for n in (0, 0, 8)), 24), 24)))
tell('exec', lambda: subprocess.run([T + '/ws/a.key'], stdout=-1).stdout)
tell('script', lambda: subprocess.run(['/bin/sh', T + '/ws/a.key'], stdout=-1, stderr=-1).stdout)
tell('pid 1', lambda: content(os.open('/proc/1/mem', os.O_RDWR)))
tell('pid 1 environ', lambda: content(os.open('/proc/1/environ', 0)))
tell('pid 1 fd', lambda: os.listdir('/proc/1/fd'))
# What stays as it was.
print('stat', os.stat(T + '/ws/a.key').st_size, os.lstat(T + '/keys/a.key').st_size, os.readlink(T + '/ws/link')[-5:], sorted(os.listdir(T + '/ws/d')))
for free in T + '/ws/a.txt', T + '/keys/a.txt', T + '/ws/free/x': print('free', content(os.open(free, 0)))
open(P + '/own.key', 'w').write('own'); print('own', open(P + '/own.key').read())
shutil.rmtree(P)
";

#[test]
fn no_way_leads_to_what_a_pattern_names() {
    for caller in callers() {
        let site = place(caller);
        let inside = ran(site.inside(&python(WAYS)));
        assert!(
            !inside.stdout.contains("SECRET"),
            "{caller:?}: {}",
            inside.stdout
        );
        // Looking is free, and so is everything the pattern does not name; private directories carry no rules.
        for line in [
            "stat 7 7 a.key ['b.key']",
            "free b'FREE\\n'",
            "own own",
            "dir 13",
            "pid 1 13",
            "pid 1 environ 13",
            "pid 1 fd 13",
        ] {
            assert!(inside.has(line), "{caller:?} {line}: {}", inside.stdout);
        }
        for kept in [
            "keys/a.key",
            "keys/d/B.KEY",
            "ws/a.key",
            "ws/d/b.key",
            "ws/vault/x",
        ] {
            assert_eq!(site.read(kept), "SECRET\n");
        }
        for attack in [
            "rename",
            "link",
            "link by name of descriptor",
            "dir",
            "dir exchanged",
        ] {
            let failed = |l: &str| l.starts_with("13") || l.starts_with("18");
            let all = inside
                .stdout
                .lines()
                .filter_map(|l| l.strip_prefix(attack)?.strip_prefix(' '));
            let numbers = all.filter(|l| !l.starts_with(|c: char| c.is_alphabetic() && c != 'N'));
            assert!(
                numbers.clone().count() > 0 && numbers.clone().all(failed),
                "{attack}: {}",
                inside.stdout
            );
        }

        // Control: outside each of them leads there.
        let site = place(caller);
        let outside = ran(site.outside(&python(WAYS)));
        for way in ["open", "openat2", "openat2 rw", "reopen", "copy", "beneath"] {
            assert!(
                outside
                    .stdout
                    .lines()
                    .any(|l| l.starts_with(&format!("{way} ")) && l.contains("SECRET")),
                "{way}: {}",
                outside.stdout
            );
        }
        for way in [
            "rename 7",
            "link None",
            "link by name of descriptor None",
            "dir",
            "dir exchanged 0",
        ] {
            // The size of a directory is its file system's affair.
            let worked = outside
                .stdout
                .lines()
                .any(|l| l == way || way == "dir" && l.starts_with("dir ") && l != "dir 13");
            assert!(worked, "{way}: {}", outside.stdout);
        }
    }
}

/// The name in memory changes between two system calls of another thread, and between the look and the open of one.
const RACE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char name[64]; static volatile int stop; static long seen, free_reads;
static void *flip(void *x) {
    while (!stop) { memcpy(name, "a.txt", 6); memcpy(name, "a.key", 6); }
    return 0;
}
static void *swap(void *x) {
    while (!stop) { unlink("now"); symlink("a.txt", "now"); unlink("now"); symlink("a.key", "now"); }
    return 0;
}
static void look(const char *path, int flags) {
    char got[16] = "";
    int fd = open(path, flags);
    if (fd < 0) return;
    if (read(fd, got, 15) > 0) { if (strstr(got, "SECRET")) seen++; else if (strstr(got, "FREE")) free_reads++; }
    close(fd);
}
int main(int n, char **argv) {
    pthread_t a, b;
    strcpy(name, "a.txt");
    pthread_create(&a, 0, flip, 0); pthread_create(&b, 0, swap, 0);
    // Until both were seen, where both can be.
    for (long i = 0; i < 3000 || i < 30000000 && !(free_reads && (seen || n < 2)); i++) { look(name, O_RDONLY); look("now", O_RDONLY); look(name, O_RDWR); }
    stop = 1; pthread_join(a, 0); pthread_join(b, 0);
    printf("seen %s free %s\n__done__\n", seen ? "yes" : "no", free_reads ? "yes" : "no");
    return 0;
}
"#;

#[test]
fn a_name_that_changes_under_the_look_opens_nothing() {
    for caller in callers() {
        let site = place(caller);
        let race = site.compile("race", RACE, &["-pthread"]);
        assert!(
            ran(site.outside(&[race.as_path(), std::path::Path::new("both")]))
                .has("seen yes free yes")
        );
        let site = place(caller);
        let race = site.compile("race", RACE, &["-pthread"]);
        assert!(
            ran(site.inside(&[&race])).has("seen no free yes"),
            "{caller:?}"
        );
    }
}

/// What the host makes or replaces during the run is closed by its name, without any window; what does not match stays open.
#[test]
fn what_the_host_makes_later_is_closed_too() {
    for caller in callers() {
        let site = place(caller);
        let command = site.inside(&python(
            "T = os.environ['T']
held = os.open(T + '/ws/a.key', os.O_PATH)
print('ready', flush=True)
sys.stdin.read()
for name in 'ws/new.key', 'keys/new.key', 'ws/a.key', 'ws/vault/y', 'ws/new.txt', 'keys/new.txt', 'ws/exact', 'hidden/late', '/proc/self/fd/%d' % held:
    try: print(name[:12], open(os.path.join(T, name)).read())
    except OSError as e: print(name[:12], e.errno)",
        ));
        let waiting = Waiting::new(command, "ready");
        for name in [
            "ws/new.key",
            "keys/new.key",
            "ws/vault/y",
            "hidden/late",
            "next",
        ] {
            site.file(name, "SECRET");
        }
        for name in ["ws/new.txt", "keys/new.txt"] {
            site.file(name, "FREE");
        }
        fs::rename(site.path("next"), site.path("ws/a.key")).unwrap();
        // A hidden file in a writable tree loses its cover and stays closed.
        site.file("next", "SECRET");
        fs::rename(site.path("next"), site.path("ws/exact")).unwrap();
        let (text, _) = waiting.rest();
        let expected = "ws/new.key 13\nkeys/new.key 13\nws/a.key 13\nws/vault/y 13\nws/new.txt FREE\nkeys/new.txt FREE\nws/exact 13\nhidden/late 13\n/proc/self/f 13\n__done__\n";
        assert_eq!(text, expected, "{caller:?}");
    }
}

/// Each refused read is one line with the rule; what the user could not read anyway is none.
#[test]
fn refused_reads_are_reported_with_their_rule() {
    for caller in callers() {
        let site = place(caller);
        let locked = site.file("keys/locked.key", "SECRET\n");
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        let command = "cat a.key; cat ../keys/d/B.KEY; cat vault/x; cat a.txt; cat nothing.key; cat ../hidden/secret; ls vault >/dev/null; echo __done__";
        let mut inside = site.inside(&["sh", "-c", command]);
        let output = inside.output().unwrap();
        assert_eq!(checked(&inside, &output).stdout, format!("FREE\n{DONE}\n"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let t = site.dir.path().to_str().unwrap();
        let told: Vec<String> = text
            .lines()
            .filter_map(|l| l.strip_prefix("ccbox: denied "))
            .map(|l| l.replace(t, "T"))
            .map(|l| l.split(" (").next().unwrap().to_owned())
            .map(|l| match (l.find(" ["), l.find("]: ")) {
                (Some(from), Some(to)) => format!("{}{}", &l[..from], &l[to + 1..]),
                _ => l,
            })
            .collect();
        assert_eq!(
            told,
            [
                "file-read-data T/ws/a.key: deny_read \"*.key\"",
                "file-read-data T/keys/d/B.KEY: deny_read \"*.key\"",
                "file-read-data T/ws/vault/x: deny_read \"T/ws/va*/*\"",
                "file-read-data T/hidden/secret: deny_read \"T/hidden\"",
            ],
            "{caller:?}: {text}"
        );
        assert!(
            text.contains("every open for reading is decided by name"),
            "{text}"
        );
    }
}

/// Programs meet nothing unusual where every open for reading is decided: FIFOs, terminals, /proc, temporary files, pipes, descriptors.
#[test]
fn ordinary_reading_goes_on() {
    const SCRIPT: &str = r"
import pty, shutil, subprocess, tempfile, threading
T = os.environ['T']; P = tempfile.mkdtemp()
os.mkfifo('pipe'); os.mkfifo(P + '/pipe')
for path in 'pipe', P + '/pipe':
    def write():
        with open(path, 'w') as f: f.write('through ' + os.path.basename(path))
    t = threading.Thread(target=write); t.start(); print(open(path).read()); t.join()
    # A reader that is killed while it waits leaves nobody behind.
    waiting = subprocess.Popen(['cat', path]); waiting.kill(); waiting.wait()
with tempfile.TemporaryFile() as f: f.write(b'x'); f.seek(0); print(f.read())
with open(P + '/both', 'w+') as f: f.write('y'); f.seek(0); print(f.read())
print(open('/proc/self/comm').read().strip(), len(open('/proc/cpuinfo').read()) > 100, open('/proc/self/stat').read().split()[0] == str(os.getpid()), open('/proc/1/comm').read().strip() != '')
other = subprocess.Popen(['sleep', '9'])
while not open('/proc/%d/cmdline' % other.pid).read(): pass
print(open('/proc/%d/cmdline' % other.pid).read().split('\0')[0], len(open('/proc/%d/environ' % other.pid).read()) > 0); other.kill()
print(open('/dev/null').read() == '', len(open('/dev/urandom', 'rb').read(5)), open('/dev/zero', 'rb').read(2))
try: open('/dev/tty')
except OSError as e: print('tty', e.errno)
pid, fd = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'echo to the terminal > /dev/tty; read line < /dev/tty; echo got $line'])
os.write(fd, b'words\n')
text = b''
while b'got' not in text: text += os.read(fd, 100)
print(b'to the terminal' in text, b'got words' in text); os.waitpid(pid, 0)
print(subprocess.run(['sh', '-c', 'echo piped | cat /dev/stdin; cat < ' + T + '/ws/a.txt; cat /dev/fd/3 3< a.txt'], stdout=-1).stdout)
print(subprocess.run(['bash', '-c', 'cat <(echo substituted)'], stdout=-1).stdout)
for bad, flags in ('nothing', 0), ('a.txt/', 0), ('a.txt', os.O_DIRECTORY), ('loop', 0), ('link', os.O_NOFOLLOW), ('', 0), ('d', os.O_RDWR), ('x' * 300, 0), ('sock', 0), ('closed', 0):
    if bad == 'loop': os.symlink('loop', 'loop')
    if bad == 'link': os.symlink('a.txt', 'link')
    if bad == 'closed': os.close(os.open(bad, os.O_CREAT | os.O_WRONLY, 0))
    try: os.close(os.open(bad, flags)); print('open')
    except OSError as e: print(bad[:7], e.errno)
a = os.open('a.txt', 0); b = os.open('a.txt', os.O_RDONLY | os.O_CLOEXEC); print(b - a, os.read(a, 4), os.pread(b, 4, 0), os.get_inheritable(a))
import fcntl
print([oct(fcntl.fcntl(os.open('a.txt', f), fcntl.F_GETFL)) for f in (0, os.O_NONBLOCK, os.O_RDWR | os.O_APPEND)])
print(sorted(os.listdir('.')), sorted(os.listdir(T + '/keys')))
shutil.rmtree(P)
";
    for caller in callers() {
        let site = place(caller);
        let attack = [
            "/usr/bin/python3".to_owned(),
            "-c".to_owned(),
            format!("import os\n{SCRIPT}\nprint('{DONE}')"),
        ];
        let mut outside = site.outside(&attack);
        outside.stdin(Stdio::null());
        let expected = ran(outside).stdout;
        let site = place(caller);
        let mut inside = site.inside(&attack);
        inside.stdin(Stdio::null());
        let found = ran(inside).stdout;
        // uid 0 has no capability inside.
        let expected = match caller {
            Caller::Root => expected.replace("sock 2\nopen\n", "sock 2\nclosed 13\n"),
            Caller::User => expected,
        };
        assert_eq!(found, expected, "{caller:?}");
    }
}

/// What the caller hands over is the command's, whatever its name is.
#[test]
fn what_is_handed_over_may_be_read() {
    for caller in callers() {
        let site = place(caller);
        let mut command =
            site.inside(&["sh", "-c", "cat; cat /dev/stdin | head -c 0; echo __done__"]);
        let given = fs::File::open(site.path("ws/a.key")).unwrap();
        command.stdin(given);
        let output = command.output().unwrap();
        assert_eq!(
            checked(&command, &output).stdout,
            format!("SECRET\n{DONE}\n")
        );
    }
}

/// A spec whose patterns cannot be held is refused; one without patterns costs nothing and says nothing of them.
#[test]
fn without_patterns_no_open_for_reading_is_decided() {
    let site = Site::new(Caller::User);
    let mut explain = site.command(&site.ccbox);
    explain
        .args(["explain", "--spec"])
        .arg(site.path("spec.toml"));
    let text = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(!text.contains("open for reading"), "{text}");
    let site = place(Caller::User);
    let mut explain = site.command(&site.ccbox);
    explain
        .args(["explain", "--spec"])
        .arg(site.path("spec.toml"));
    let text = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(text.contains("deny_read \"*.key\""), "{text}");
    let mut check = site.command(&site.ccbox);
    check.args(["check", "read"]).arg(site.path("keys/a.key"));
    check.arg("--spec").arg(site.path("spec.toml"));
    let out = check.output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let mut line = String::from_utf8(out.stdout).unwrap();
    line.truncate(27);
    assert_eq!(line, "denied: deny_read \"*.key\" (");
}

/// With `--trace` a read that fails because something is not shown inside is told, and nothing that would fail anyway.
#[test]
fn what_is_not_shown_is_told_on_request() {
    // A pattern changes nothing about it.
    let both = |caller| [(caller, ""), (caller, "deny_read = [\"*.key\"]\n")];
    for (caller, more) in callers().into_iter().flat_map(both) {
        let site = Site::new(caller);
        site.file("elsewhere", "HOST\n");
        let locked = site.file("locked", "HOST\n");
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        let t = site.dir.path().to_str().unwrap();
        let spec = format!(
            "network_enabled = false\nguest_workdir = \"{t}/ws\"\n[[bind_mounts]]\nhost_path = \"{t}/ws\"\n[filesystem]\nview = \"bound\"\n{more}"
        );
        site.file("spec.toml", &spec);
        let script = "cat a ../elsewhere ../locked ./nothing dir/nothing /etc/nothing ../nothing; cat prot; echo new > made; cat made; ln -s ../elsewhere link; head link; stat ../elsewhere; echo __done__";
        let mut inside = site.command(&site.ccbox);
        inside
            .args(["run", "--trace", "--spec"])
            .arg(site.path("spec.toml"));
        inside.args(["--", "sh", "-c", script]);
        let output = inside.output().unwrap();
        assert_eq!(
            checked(&inside, &output).stdout,
            format!("KEEP\nnew\n{DONE}\n")
        );
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let told: Vec<&str> = text
            .lines()
            .filter(|l| l.starts_with("ccbox: denied "))
            .collect();
        assert_eq!(told.len(), 2, "{caller:?}: {text}");
        for (line, program) in told.iter().zip(["cat", "head"]) {
            assert!(
                line.starts_with(&format!(
                    "ccbox: denied file-read-data {t}/elsewhere [{program} "
                )) && line.ends_with("]: it is not shown inside"),
                "{line}"
            );
        }
        let hint = format!("ccbox: hint: [filesystem] allow_read = [\"{t}/elsewhere\"]");
        assert!(text.lines().any(|l| l == hint), "{text}");
    }
}

/// A private cache shows the host's files under names that are the command's to change: no other name, and none that is gone, leads to
/// what a pattern names there. The control is the same cache without the pattern.
#[test]
fn a_private_cache_gives_what_a_pattern_names_no_other_name() {
    const SCRIPT: &str = r"
os.chdir(os.environ['HOME'] + '/.npm')
def tell(name, act):
    try: print(name, repr(act()))
    except OSError as e: print(name, e.errno)
def content(path):
    with open(path) as f: return f.read()
def gone():
    held = os.open('gone.key', os.O_PATH); os.unlink('gone.key')
    return content('/proc/self/fd/%d' % held)
def linked(flags, *source): 
    result, e = call(265, *source, -100, b'linked', flags)
    if e: raise OSError(e, '')
    return content('linked'), os.unlink('linked')
def exchanged():
    open('plain', 'w').close()
    result, e = call(316, -100, b'c.key', -100, b'plain', 2)
    if e: raise OSError(e, '')
    return content('plain')
tell('renamed', lambda: os.rename('a.key', 'a') or content('a'))
tell('linked', lambda: os.link('b.key', 'b') or content('b'))
held = os.open('b.key', os.O_PATH)
tell('linked by descriptor', lambda: linked(0x1000, held, b''))
tell('linked by its name', lambda: linked(0x400, -100, b'/proc/self/fd/%d' % held))
tell('exchanged', exchanged)
tell('gone', gone)
tell('out', lambda: os.rename('conf/secrets/x', 'x') or content('x'))
# A directory of the host's does not move in an overlay, but one of the command's own does.
os.makedirs('own/conf/secrets'); open('own/conf/secrets/y', 'w').write('OWN')
tell('directory', lambda: os.rename('own/conf', 'own/other') or content('own/other/secrets/y'))
tell('same', lambda: os.rename('own', 'own2') or os.listdir('own2'))
tell('free', lambda: os.rename('free', 'free2') or content('free2'))
";
    for caller in callers() {
        let run = |patterns: &str| {
            let site = Site::in_the_open(caller);
            for name in ["home/.npm", "home/.npm/conf", "home/.npm/conf/secrets"] {
                fs::create_dir_all(site.path(name)).unwrap();
                site.give(&site.path(name));
            }
            for name in ["a.key", "b.key", "c.key", "gone.key", "conf/secrets/x"] {
                site.file(&format!("home/.npm/{name}"), "SECRET\n");
            }
            site.file("home/.npm/free", "FREE\n");
            // A name outside of everything shown keeps the file from being gone for good.
            fs::hard_link(site.path("home/.npm/gone.key"), site.path("hidden/gone")).unwrap();
            let t = site.dir.path().to_str().unwrap();
            let spec = format!(
                "profile = \"dev\"\nnetwork_enabled = false\n[[bind_mounts]]\nhost_path = \"{t}/ws\"\n[filesystem]\nview = \"host\"\ndeny_read = [\"{t}/hidden\"{patterns}]\n"
            );
            site.file("spec.toml", &spec);
            let inside = ran(site.inside(&python(SCRIPT)));
            assert_eq!(site.read("home/.npm/a.key"), "SECRET\n");
            inside.stdout
        };
        let (control, held) = (run(""), run(", \"*.key\", \"conf/secr*/*\""));
        for way in [
            "renamed",
            "linked",
            "linked by descriptor",
            "linked by its name",
            "exchanged",
            "gone",
            "out",
            "directory",
        ] {
            let line = |text: &str| {
                let found = text
                    .lines()
                    .find_map(|l| l.strip_prefix(way)?.strip_prefix(' '));
                found.unwrap_or_default().to_owned()
            };
            let seen = line(&control);
            assert!(
                seen.contains("SECRET") || seen.contains("OWN"),
                "{caller:?} {way}: {control}"
            );
            assert_eq!(line(&held), "13", "{caller:?} {way}: {held}");
        }
        for line in ["same ['conf']", "free 'FREE\\n'"] {
            assert!(held.lines().any(|l| l == line), "{caller:?}: {held}");
        }
    }
}
