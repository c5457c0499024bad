//! Getting at what a cover hides: every way to open, map, copy, ask about or change it, and its file system itself.

use super::{Site, callers, python, ran, sh};

/// Whether the caller can have covers that report, and not only placeholders.
pub(super) fn served(site: &Site) -> bool {
    let open = site
        .outside(&["sh", "-c", "exec 3<>/dev/fuse"])
        .output()
        .unwrap();
    open.status.success()
}

/// Every call there is on a file and on a directory; each prints its errno. `F` and `D` are hidden, `D/in` is in there.
const CALLS: &str = r"
import fcntl, mmap, select, shutil, stat
T = os.environ['T']
F, D, W = T + '/vault/file', T + '/vault/dir', T + '/ws'
os.umask(0)
def tell(name, act):
    try:
        got = act()
        print(name, 0, repr(got) if isinstance(got, (bytes, str, list)) else '')
    except OSError as e:
        print(name, e.errno)
    except Exception as e:
        print(name, 'x', type(e).__name__)
def raw(number, *args):
    result, e = call(number, *args)
    if e: raise OSError(e, '')
    return result
def opened(path, flags):
    fd = os.open(path, flags, 0o600)
    try: return os.read(fd, 100) if not flags & os.O_DIRECTORY else os.listdir(fd)
    finally: os.close(fd)
for path in F, D + '/in':
    for flags in 'O_RDONLY', 'O_RDWR', 'O_WRONLY', 'O_APPEND', 'O_NONBLOCK', 'O_NOFOLLOW', 'O_NOATIME', 'O_DIRECT', 'O_SYNC':
        tell('open ' + flags, lambda: opened(path, getattr(os, flags)))
    tell('creat', lambda: opened(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY))
    tell('truncate', lambda: os.truncate(path, 1))
    tell('copyfile', lambda: shutil.copyfile(path, W + '/copy'))
    tell('execve', lambda: (os.posix_spawn(path, [path], {}), os.wait())[0])
    tell('getxattr', lambda: os.getxattr(path, 'user.secret'))
    tell('listxattr', lambda: os.listxattr(path))
    tell('readlink', lambda: os.readlink(path))
    tell('chdir', lambda: os.chdir(path))
    handle = ctypes.create_string_buffer(b'\x80\0\0\0' + bytes(200)); mount = ctypes.c_int()
    call(303, -100, path.encode(), handle, ctypes.byref(mount), 0)
    tell('open_by_handle', lambda: raw(304, os.open('/', os.O_RDONLY), handle, 0))
for path in F, D:
    tell('chmod', lambda: os.chmod(path, 0o777))
    tell('utime', lambda: os.utime(path))
    tell('setxattr', lambda: os.setxattr(path, 'user.x', b'x'))
    tell('removexattr', lambda: os.removexattr(path, 'user.secret'))
    tell('rename away', lambda: os.rename(path, W + '/moved'))
    tell('rename onto', lambda: os.rename(W + '/dir' if path == D else W + '/prot', path))
    tell('link', lambda: os.link(path, W + '/linked'))
    tell('unlink', lambda: os.rmdir(path) if path == D else os.unlink(path))
    for flags in 1, 2:
        tell('exchange', lambda: raw(316, -100, path.encode(), -100, (W + '/dir').encode(), flags))
    try: fd = os.open(path, os.O_PATH)
    except OSError: continue
    tell('fstat', lambda: os.fstat(fd).st_size)
    tell('pread', lambda: os.pread(fd, 100, 0))
    tell('lseek', lambda: os.lseek(fd, 0, 2))
    tell('mmap', lambda: mmap.mmap(fd, 10, prot=mmap.PROT_READ)[:])
    for request in 0x8927, 0x541b, 0x80086601, 0x80047601, 0xc020660b, 0x40049409, 0x4020940d, 0xe501, 0x8004e500:
        tell('ioctl %x' % request, lambda: fcntl.ioctl(fd, request, bytes(64)))
    tell('sendfile', lambda: os.sendfile(os.open(W + '/sent', os.O_CREAT | os.O_WRONLY), fd, 0, 100))
    tell('copy_file_range', lambda: os.copy_file_range(fd, os.open(W + '/sent', os.O_WRONLY), 100))
    tell('flock', lambda: fcntl.flock(fd, fcntl.LOCK_SH))
    tell('fallocate', lambda: os.posix_fallocate(fd, 0, 1))
    tell('fchmod', lambda: os.fchmod(fd, 0o777))
    tell('fchdir', lambda: os.fchdir(fd))
    tell('getdents', lambda: os.listdir(fd))
    tell('fsync', lambda: os.fsync(fd))
    for way in '/proc/self/fd/%d' % fd, '/dev/fd/%d' % fd:
        tell('reopen', lambda: opened(way, os.O_RDONLY))
    tell('openat', lambda: os.read(os.open('in', os.O_RDONLY, dir_fd=fd), 100))
    tell('openat up', lambda: os.read(os.open('../file', os.O_RDONLY, dir_fd=fd), 100))
tell('listdir', lambda: os.listdir(D))
tell('mkdir', lambda: os.mkdir(D + '/made'))
tell('symlink', lambda: os.symlink('/etc/passwd', D + '/made'))
tell('mkfifo', lambda: os.mkfifo(D + '/made'))
tell('tmpfile', lambda: os.open(D, os.O_TMPFILE | os.O_RDWR))
tell('chroot', lambda: os.chroot(D))
tell('bind', lambda: raw(165, (T + '/vault').encode(), D.encode(), 0, 4096, 0))
tell('umount', lambda: raw(166, F.encode(), 2))
tell('device', lambda: os.open('/dev/fuse', os.O_RDWR))
tell('connections', lambda: [open('/sys/fs/fuse/connections/%s/abort' % n, 'w') for n in os.listdir('/sys/fs/fuse/connections')][0])
tell('server', lambda: [os.readlink('/proc/%s/fd/%s' % (p, f)) for p in os.listdir('/proc') if p.isdigit() for f in os.listdir('/proc/%s/fd' % p)].index('/dev/fuse'))
";

/// What shows no content and changes nothing: metadata is true by design, a placeholder's is empty, and nothing is listed where nothing
/// is to be listed.
const HARMLESS: [&str; 4] = [
    "fstat 0",
    "listxattr 0 []",
    "mmap x ValueError",
    "connections x IndexError",
];

fn vault(site: &Site) {
    std::fs::create_dir_all(site.path("vault/dir")).unwrap();
    site.file("vault/file", "#!/bin/sh\necho SECRET\n");
    site.file("vault/dir/in", "SECRET\n");
    for name in ["vault", "vault/dir"] {
        site.give(&site.path(name));
    }
    let t = site.dir.path().to_str().unwrap();
    let hidden = format!("deny_read = [\"{t}/vault/file\", \"{t}/vault/dir\"]");
    let spec = site
        .spec("")
        .replace(&format!("deny_read = [\"{t}/hidden\"]"), &hidden);
    site.file("spec.toml", &spec);
}

#[test]
fn no_call_gets_behind_a_cover() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        let attack = python(CALLS);
        let inside = ran(site.inside(&attack));
        let worked: Vec<&str> = inside
            .stdout
            .lines()
            .filter(|l| l.contains(" 0 ") || l.ends_with(" 0") || l.contains(" x "))
            .filter(|l| !HARMLESS.iter().any(|h| l.starts_with(h)))
            .collect();
        assert_eq!(worked, [] as [&str; 0], "{caller:?}");
        assert!(!inside.stdout.contains("SECRET"));
        assert_eq!(site.read("vault/file"), "#!/bin/sh\necho SECRET\n");
        assert_eq!(site.read("vault/dir/in"), "SECRET\n");
        assert_eq!(site.read("ws/prot"), "KEEP\n");
        for made in ["ws/moved", "ws/linked", "vault/dir/made"] {
            assert!(!site.path(made).exists(), "{made}");
        }
        for copy in ["ws/copy", "ws/sent"] {
            assert_eq!(
                std::fs::read_to_string(site.path(copy)).unwrap_or_default(),
                ""
            );
        }

        // Control: the same calls outside, where all of it works.
        let control = ran(site.outside(&attack));
        for works in [
            "open O_RDONLY 0 b'#!/bin/sh",
            "open O_RDONLY 0 b'SECRET",
            "chmod 0",
            "rename away 0",
            "truncate 0",
            "exchange 0",
            "mkdir 0",
        ] {
            assert!(control.stdout.contains(works), "{works}: {control:?}");
        }
    }
}

#[test]
fn metadata_is_true_and_every_refusal_is_told_once() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        let stat = "stat -c '%a %s %i %Y %h %U' $T/vault/file $T/vault/dir; ls -ld $T/vault/dir | cut -c1-10; test -e $T/vault/file && echo there";
        let outside = ran(site.outside(&sh(stat)));
        let script = format!(
            "{stat}; cat $T/vault/file; cat $T/vault/file; cat $T/vault/dir/in; ls $T/vault/dir; \
             test -r $T/vault/file; cd $T/vault/dir; test -e $T/vault/dir/in; df >/dev/null"
        );
        let out = site.inside(&sh(&script)).output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
        let t = site.dir.path().display();
        let lines: Vec<String> = stderr
            .lines()
            .filter_map(|l| l.strip_prefix("ccbox: denied "))
            .map(|l| {
                // Without the pid.
                let (head, tail) = l.split_once(']').unwrap();
                let (head, _) = head.rsplit_once(' ').unwrap();
                format!("{head}]{}", tail.split('(').next().unwrap())
            })
            .collect();
        if served(&site) {
            assert_eq!(stdout, outside.stdout, "{caller:?}");
            let line = |p: &str, who: &str, rule: &str| {
                format!("file-read-data {t}/vault/{p} [{who}]: deny_read \"{t}/vault/{rule}\" ")
            };
            assert_eq!(
                lines,
                [
                    line("file", "cat", "file"),
                    line("dir/in", "cat", "dir"),
                    line("dir", "ls", "dir")
                ],
                "{stderr}"
            );
            assert!(stderr.contains("2 times: file-read-data"), "{stderr}");
            assert!(stderr.contains("spec.toml:"), "{stderr}");
        } else {
            assert_eq!(lines, [] as [String; 0], "{stderr}");
        }
        assert!(!stdout.contains("SECRET"));
    }
}

/// The process in the line is the host's, also for a thread of a process.
#[test]
fn the_process_is_named() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        if !served(&site) {
            continue;
        }
        let script = "
import threading
def read():
    try: open(os.environ['T'] + '/vault/file')
    except PermissionError: pass
open('/proc/self/comm', 'w').write('prober')
t = threading.Thread(target=read); t.start(); t.join()
print(os.getpid(), flush=True)
import time; time.sleep(.5)
";
        let mut command = site.inside(&python(script));
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        let line = stderr
            .lines()
            .find(|l| l.contains("vault/file ["))
            .unwrap_or_else(|| panic!("{stderr}"));
        let (name, pid) = line
            .split_once('[')
            .and_then(|(_, r)| r.split_once(']'))
            .and_then(|(who, _)| who.split_once(' '))
            .unwrap();
        assert_eq!(name, "prober");
        // Inside it has a small number of its own.
        let inner: i32 = String::from_utf8_lossy(&out.stdout)
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(inner < 20 && pid.parse::<i32>().unwrap() != inner, "{line}");
    }
}

/// Without the device, placeholders: they refuse too, and the enforced line says that nobody is told.
#[test]
fn without_the_device_nothing_is_readable_either() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        let script = "mount --bind /dev/null /dev/fuse && exec \"$@\"";
        let mut argv: Vec<std::ffi::OsString> = ["unshare", "-rm", "sh", "-c", script, "sh"]
            .map(Into::into)
            .to_vec();
        argv.push(site.ccbox.clone().into());
        argv.extend(site.ccbox_args(&sh(
            "cat $T/vault/file; cat $T/vault/dir/in; ls $T/vault/dir",
        )));
        // `run` is the first argument of the binary.
        argv.insert(8, "-v".into());
        let out = site.outside(&argv).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "__done__\n",
            "{stderr}"
        );
        assert!(
            stderr.contains(" reads=placeholders(denials-not-reported) "),
            "{stderr}"
        );
        assert!(!stderr.contains("denied file-read"), "{stderr}");
    }
}

/// ccbox is killed while the command reads as fast as it can: nothing is read, and neither the file system nor a process is left.
#[test]
fn a_dead_server_refuses_and_leaves_nothing() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        let script = "
F = os.environ['T'] + '/vault/file'
print('reading', flush=True)
while True:
    try:
        open(F).read()
        open(os.environ['T'] + '/ws/leak', 'w').write('leaked')
    except OSError: pass
";
        for _ in 0..10 {
            let mut child = std::process::Command::new(&site.ccbox);
            let prepared = site.inside(&python(script));
            child
                .args(prepared.get_args().skip(5))
                .env_clear()
                .envs(prepared.get_envs().filter_map(|(k, v)| Some((k, v?))))
                .current_dir(site.path("ws"))
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null());
            if nix::unistd::geteuid().is_root() {
                use std::os::unix::process::CommandExt;
                let (uid, gid) = site.ids();
                child.uid(uid).gid(gid);
            }
            let mut child = child.spawn().unwrap();
            let mut out = child.stdout.take().unwrap();
            let mut first = [0; 8];
            std::io::Read::read_exact(&mut out, &mut first).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            // Ends when the last process of the run has ended.
            std::io::Read::read_to_end(&mut out, &mut Vec::new()).unwrap();
            assert!(!site.path("ws/leak").exists());
        }
        let place = site.path("vault").display().to_string();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            // Other processes come and go.
            let mounts = std::fs::read_to_string(entry.path().join("mountinfo"));
            assert!(
                !mounts.unwrap_or_default().contains(&place),
                "{}",
                entry.path().display()
            );
        }
    }
}

/// Tools that walk over everything: one line for each hidden object, no content, and they go on.
#[test]
fn tools_that_walk_go_on() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        vault(&site);
        site.file("vault/other", "OTHER\n");
        let served = served(&site);
        for (tool, sees) in [
            ("ls -lR $T/vault", "other"),
            ("find $T/vault -type f", "other"),
            ("find $T/vault -type f -exec cat {} +", "OTHER"),
            ("grep -r . $T/vault", "OTHER"),
            ("tar -C $T -cf - vault | tar -tf -", "vault/other"),
            ("cp -r $T/vault copied; cat copied/other", "OTHER"),
            ("du -a $T/vault", "other"),
            (
                "sh -c 'for f in $T/vault/*; do test -e $f && echo $f; done'",
                "other",
            ),
            (
                "python3 -c 'import os; print([f for _, _, f in os.walk(os.environ[\"T\"] + \"/vault\")])'",
                "other",
            ),
        ] {
            let out = site
                .inside(&sh(&format!("{tool}; rm -rf copied")))
                .output()
                .unwrap();
            let (stdout, stderr) = (
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr),
            );
            assert!(stdout.contains(sees), "{tool}: {stdout} {stderr}");
            assert!(!stdout.contains("SECRET"), "{tool}: {stdout}");
            let told: Vec<&str> = stderr
                .lines()
                .filter(|l| l.starts_with("ccbox: denied"))
                .collect();
            for place in ["vault/file [", "vault/dir ["] {
                let lines = told.iter().filter(|l| l.contains(place)).count();
                assert!(lines <= 1, "{tool}: {stderr}");
            }
            let all = told.len();
            assert!(all <= 2 && (served || all == 0), "{tool}: {stderr}");
        }
    }
}
