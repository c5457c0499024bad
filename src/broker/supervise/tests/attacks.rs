//! Ways to a protected name. Each is tried without the broker first, where it must succeed, and then with it.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::harness::{Setup, scratch};
use crate::sys::at::How;
use crate::sys::direct;

const CWD: i32 = libc::AT_FDCWD;
const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;

fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_encoded_bytes()).unwrap()
}

fn how(flags: i32, resolve: u64) -> How {
    How {
        flags: u64::from(flags.cast_unsigned()),
        mode: if flags & libc::O_CREAT != 0 { 0o644 } else { 0 },
        resolve,
    }
}

/// The project, and a directory beside it that needs no broker.
fn project(top: &Path) {
    for dir in ["w", "w/sub", "w/prot", "w/.git", "free"] {
        fs::create_dir(top.join(dir)).unwrap();
    }
    fs::write(top.join("w/.env"), "secret").unwrap();
    fs::write(top.join("w/prot/keep"), "kept").unwrap();
    fs::write(top.join("w/file"), "file").unwrap();
    symlink(".env", top.join("w/link")).unwrap();
    symlink("sub", top.join("w/link-dir")).unwrap();
    symlink(top.join("w/.env"), top.join("w/link-absolute")).unwrap();
    symlink("new.pem", top.join("w/dangling")).unwrap();
    symlink(top.join("w"), top.join("free/to-w")).unwrap();
    symlink(top.join("w/x.pem"), top.join("free/to-pem")).unwrap();
}

fn setup(top: &Path) -> Setup {
    let tree = top.join("w");
    Setup::new(&tree)
        .exempt(&top.join("free"))
        .pattern(".env")
        .pattern("*.pem")
        .pattern(".git/hooks/**")
        .protected(&tree.join("prot/keep"))
}

/// What must not be.
fn violated(top: &Path) -> Option<String> {
    let mut found = Vec::new();
    let env = top.join("w/.env");
    if fs::read(&env).ok().as_deref() != Some(b"secret") {
        found.push("content of .env".to_owned());
    } else if fs::metadata(&env).unwrap().permissions().mode() & 0o777 != 0o644 {
        found.push("mode of .env".to_owned());
    }
    if fs::read(top.join("w/prot/keep")).ok().as_deref() != Some(b"kept") {
        found.push("prot/keep".to_owned());
    }
    look(&top.join("w"), &mut found);
    (!found.is_empty()).then(|| found.join(", "))
}

fn look(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let protected = name.rsplit('.').next() == Some("pem")
            || name == ".env" && entry.path() != top_env(dir);
        let hook = dir.ends_with(".git") && name == "hooks";
        if protected || hook && fs::read_dir(entry.path()).is_ok_and(|mut e| e.next().is_some()) {
            found.push(entry.path().display().to_string());
        }
        if entry.file_type().unwrap().is_dir() {
            look(&entry.path(), found);
        }
    }
}

/// The one `.env` there was, if this is its directory.
fn top_env(dir: &Path) -> PathBuf {
    if dir.ends_with("w") {
        dir.join(".env")
    } else {
        PathBuf::new()
    }
}

/// What it answers does not matter.
fn ignore<T>(_: T) {}

fn read_only(path: &str) -> OwnedFd {
    direct::open_at(CWD, &c(path), libc::O_RDONLY, 0).unwrap()
}

fn own(fd: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// Attempts; whatever they answer, what counts is what is there afterwards.
const ATTACKS: &[(&str, fn())] = &[
    ("write", || ignore(fs::write(".env", "x"))),
    ("create", || ignore(fs::write("x.pem", "x"))),
    ("create in capitals", || ignore(fs::write("x.PEM", "x"))),
    ("create with ignorable characters", || {
        ignore(fs::write("sub/.e\u{200b}nv.pem", "x"));
    }),
    ("create in a new directory", || {
        fs::create_dir_all("a/b/c").unwrap();
        let _ = fs::write("a/b/c/.env", "x");
    }),
    ("truncate by path", || {
        ignore(direct::truncate(&c(".env"), 0));
    }),
    ("truncate by open", || {
        ignore(direct::open_at(
            CWD,
            &c(".env"),
            libc::O_WRONLY | libc::O_TRUNC,
            0,
        ));
    }),
    ("truncate without write access", || {
        ignore(direct::open_at(CWD, &c(".env"), libc::O_TRUNC, 0));
    }),
    ("remove", || ignore(fs::remove_file(".env"))),
    ("move away", || ignore(fs::rename(".env", "y"))),
    ("move to", || ignore(fs::rename("file", "y.pem"))),
    ("replace", || ignore(fs::rename("file", ".env"))),
    ("exchange", || {
        ignore(direct::rename(
            (CWD, &c("file")),
            (CWD, &c(".env")),
            libc::RENAME_EXCHANGE,
        ));
    }),
    ("whiteout", || {
        ignore(direct::rename(
            (CWD, &c(".env")),
            (CWD, &c("y")),
            libc::RENAME_WHITEOUT,
        ));
    }),
    ("hard link to", || ignore(fs::hard_link("file", "y.pem"))),
    ("hard link from", || {
        let _ = fs::hard_link(".env", "alias");
        let _ = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open("alias");
    }),
    ("hard link from a descriptor", || {
        let fd = read_only(".env");
        let _ = direct::link(
            (CWD, &c(own(&fd))),
            (CWD, &c("alias")),
            libc::AT_SYMLINK_FOLLOW,
        );
        let _ = direct::link(
            (fd.as_raw_fd(), c""),
            (CWD, &c("alias")),
            libc::AT_EMPTY_PATH,
        );
        let _ = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open("alias");
    }),
    ("symbolic link", || ignore(symlink("file", "y.pem"))),
    ("directory", || ignore(fs::create_dir("y.pem"))),
    ("FIFO", || {
        ignore(direct::make_node(
            CWD,
            &c("y.pem"),
            libc::S_IFIFO | 0o600,
            0,
        ));
    }),
    ("node", || {
        ignore(direct::make_node(
            CWD,
            &c("y.pem"),
            libc::S_IFREG | 0o600,
            0,
        ));
    }),
    ("mode", || {
        ignore(fs::set_permissions(
            ".env",
            fs::Permissions::from_mode(0o600),
        ));
    }),
    ("mode by descriptor", || {
        let file = fs::File::open(".env").unwrap();
        let _ = file.set_permissions(fs::Permissions::from_mode(0o600));
    }),
    ("mode by link", || {
        ignore(fs::set_permissions(
            "link",
            fs::Permissions::from_mode(0o600),
        ));
    }),
    ("dots", || ignore(fs::write("./sub/../.env", "x"))),
    ("slashes", || ignore(fs::write(".//sub//..//.env", "x"))),
    ("link", || ignore(fs::write("link", "x"))),
    ("link in a directory by link", || {
        symlink("../.env", "sub/l").unwrap();
        let _ = fs::write("link-dir/l", "x");
    }),
    ("absolute link", || ignore(fs::write("link-absolute", "x"))),
    ("dangling link", || ignore(fs::write("dangling", "x"))),
    ("link outside of the tree", || {
        ignore(fs::write("../free/to-w/.env", "x"));
    }),
    ("dangling link outside of the tree", || {
        ignore(fs::write("../free/to-pem", "x"));
    }),
    ("directory descriptor", || {
        let dir = read_only("sub");
        let _ = direct::open_at(
            dir.as_raw_fd(),
            &c("../.env"),
            libc::O_WRONLY | libc::O_TRUNC,
            0,
        );
    }),
    ("working directory in /proc", || {
        ignore(fs::write("/proc/thread-self/cwd/.env", "x"));
    }),
    ("root in /proc", || {
        let here = std::env::current_dir().unwrap();
        let _ = fs::write(format!("/proc/self/root{}/.env", here.display()), "x");
    }),
    ("openat2", || {
        ignore(direct::open_how(
            CWD,
            &c(".env"),
            how(libc::O_WRONLY | libc::O_TRUNC, 0),
        ));
    }),
    ("openat2 without write access", || {
        ignore(direct::open_how(CWD, &c(".env"), how(libc::O_TRUNC, 0)));
    }),
    ("openat2 beneath", || {
        // EAGAIN: something was renamed anywhere meanwhile, so `..` is not certain (openat2(2)).
        let open = || direct::open_how(CWD, &c("sub/../x.pem"), how(CREATE, libc::RESOLVE_BENEATH));
        while let Err(nix::errno::Errno::EAGAIN) = open() {}
    }),
    ("openat2 in a root", || {
        let _ = direct::open_how(
            CWD,
            &c("/../link"),
            how(libc::O_WRONLY | libc::O_TRUNC, libc::RESOLVE_IN_ROOT),
        );
    }),
    ("file without a name", || {
        let fd = direct::open_at(CWD, c".", libc::O_TMPFILE | libc::O_RDWR, 0o644).unwrap();
        let _ = direct::link(
            (CWD, &c(own(&fd))),
            (CWD, &c("t.pem")),
            libc::AT_SYMLINK_FOLLOW,
        );
        let _ = direct::link(
            (fd.as_raw_fd(), c""),
            (CWD, &c("t.pem")),
            libc::AT_EMPTY_PATH,
        );
    }),
    ("reopen", || {
        let fd = read_only(".env");
        let _ = direct::open_at(CWD, &c(own(&fd)), libc::O_WRONLY | libc::O_TRUNC, 0);
    }),
    ("reopen without write access", || {
        let fd = read_only(".env");
        let _ = direct::open_at(CWD, &c(own(&fd)), libc::O_TRUNC, 0);
    }),
    ("truncate a descriptor by path", || {
        let fd = read_only(".env");
        let _ = direct::truncate(&c(own(&fd)), 0);
    }),
    ("reopen a path descriptor", || {
        let fd = direct::open_at(CWD, &c(".env"), libc::O_PATH, 0).unwrap();
        let _ = direct::open_at(CWD, &c(own(&fd)), libc::O_WRONLY | libc::O_TRUNC, 0);
    }),
    ("directory moved onto a pattern", || {
        fs::create_dir_all("x/hooks").unwrap();
        fs::write("x/hooks/pre-commit", "evil").unwrap();
        let _ = fs::remove_dir(".git");
        let _ = fs::rename("x", ".git");
    }),
    ("directory exchanged onto a pattern", || {
        fs::create_dir_all("x/hooks").unwrap();
        fs::write("x/hooks/pre-commit", "evil").unwrap();
        let _ = direct::rename((CWD, &c("x")), (CWD, &c(".git")), libc::RENAME_EXCHANGE);
    }),
    ("directory moved in below a pattern", || {
        fs::create_dir("x").unwrap();
        fs::write("x/pre-commit", "evil").unwrap();
        let _ = fs::rename("x", ".git/hooks");
    }),
    ("link in place of a directory of a pattern", || {
        fs::create_dir("x").unwrap();
        fs::write("x/pre-commit", "evil").unwrap();
        let _ = symlink("../x", ".git/hooks");
    }),
    ("ancestor of a protected path moved away", || {
        ignore(fs::rename("prot", "q"));
    }),
    ("ancestor of a protected path exchanged", || {
        fs::create_dir("q").unwrap();
        let _ = direct::rename((CWD, &c("q")), (CWD, &c("prot")), libc::RENAME_EXCHANGE);
    }),
    ("protected path", || ignore(fs::write("prot/keep", "x"))),
    ("protected path in capitals", || {
        fs::rename("prot", "old").ok();
        fs::create_dir("prot").ok();
        let _ = fs::write("prot/keep", "x");
    }),
    ("trailing slash", || ignore(fs::create_dir("y.pem/"))),
    ("shell", || {
        let script = "echo x > .env; cp file y.pem; mv file z.pem; ln -s . sub/.env; tee .env < file; sed -i s/secret/x/ .env; rm -f .env";
        let _ = std::process::Command::new("sh")
            .args(["-c", script])
            .output();
    }),
];

#[test]
fn every_way_to_a_protected_name_is_closed() {
    let mut wrong = Vec::new();
    for &(name, attack) in ATTACKS {
        let (_keep, top) = scratch();
        project(&top);
        assert_eq!(violated(&top), None);
        setup(&top).outside(attack);
        if violated(&top).is_none() {
            wrong.push(format!("{name}: does nothing outside either"));
        }
        let (_keep, top) = scratch();
        project(&top);
        setup(&top).run(attack);
        if let Some(what) = violated(&top) {
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
