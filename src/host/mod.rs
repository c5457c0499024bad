//! Facts about this machine and this call, as plain data that tests can make up.
//!
//! [`HostFacts::collect`] runs on every call: it starts no process and makes a few dozen cheap system calls at most.
//! [`probe`] is the slow and thorough part, for `ccbox probe` and for the diagnosis after a failure (semantics 28).

pub mod broker;
pub mod bwrap;
pub mod control_groups;
pub mod fs_view;
mod memory;
pub mod mount_table;
mod platform;
pub mod probe;

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

pub use broker::BrokerHost;
pub use fs_view::{FsView, RealFs};
pub use platform::Platform;

/// The mark of a ccbox sandbox: a file on the private `/run` (semantics 46). On a host only root could put it there.
pub const NEST_MARK: &str = "/run/ccbox";

/// Inside a ccbox sandbox: one with mounts has the mark, one without them a filter that answers (semantics 46).
pub(crate) fn is_nested(fs: &dyn FsView) -> bool {
    fs.kind(Path::new(NEST_MARK)).is_some() || crate::sys::prctl::is_inside()
}

/// What the planner may know about the host. Collected once; constructible in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The caller's uid and gid (real ids).
    pub uid: u32,
    /// The caller's gid.
    pub gid: u32,
    /// Login name, from the user database or `uid` in decimal.
    pub user: String,
    /// `$HOME` if absolute and existing, else the user database (semantics 38), as spelled.
    pub home: PathBuf,
    /// Canonical form of `home`.
    pub home_real: PathBuf,
    /// The caller's cwd as spelled (`$PWD` if it names the same directory), absolute.
    pub cwd: PathBuf,
    /// Canonical form of `cwd`.
    pub cwd_real: PathBuf,
    /// This machine's own name (`uname -n`); it keeps it inside.
    pub hostname: String,
    /// The caller's environment.
    pub env: Vec<(OsString, OsString)>,
    /// This executable.
    pub exe: PathBuf,
    /// `$XDG_STATE_HOME/ccbox` or `~/.local/state/ccbox`.
    pub state_dir: PathBuf,
    /// `$XDG_CONFIG_HOME/ccbox` or `~/.config/ccbox`.
    pub config_dir: PathBuf,
    /// WSL2 (Linux only).
    pub wsl2: bool,
    /// Already inside a ccbox sandbox (semantics 46), known by the mark on the private /run.
    pub nested: bool,
    /// Bytes of memory that bound the private /tmp: the smaller of RAM and the cgroup limit (semantics 11).
    pub memory_limit: u64,
    /// Names can be judged when they are made (D4).
    pub broker: BrokerHost,
}

/// Why the facts of a call cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The directory ccbox was started in is gone or hidden.
    #[error("cannot find the current directory: {}", crate::exit::reason(.0))]
    Cwd(std::io::Error),
    /// `/proc/self/exe` cannot be read.
    #[error("cannot find this executable: {}", crate::exit::reason(.0))]
    Exe(std::io::Error),
}

impl crate::exit::Failure for HostError {
    fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::Cwd(_) => "change into a directory that exists",
                Self::Exe(_) => "ccbox needs a mounted /proc",
            }
            .to_owned(),
        )
    }
}

impl HostFacts {
    /// Collects the facts of this call.
    ///
    /// # Errors
    /// No current directory, or no way to find this executable.
    pub fn collect() -> Result<Self, HostError> {
        let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let var = |name: &str| lookup(&env, name);
        let (uid, gid) = (
            nix::unistd::getuid().as_raw(),
            nix::unistd::getgid().as_raw(),
        );
        let fs = RealFs;
        let cwd_real = current_dir().map_err(HostError::Cwd)?;
        let cwd = spelled_cwd(&fs, var("PWD"), &cwd_real);
        let (user, db_home) = account(uid);
        let home = home_dir(&fs, var("HOME"), db_home);
        let home_real = fs.canonicalize(&home).unwrap_or_else(|_| home.clone());
        let xdg = |name: &str, default: &str| {
            var(name)
                .map(Path::new)
                .filter(|p| p.is_absolute())
                .map_or_else(|| home.join(default), Path::to_path_buf)
                .join("ccbox")
        };
        Ok(Self {
            uid,
            gid,
            user,
            state_dir: xdg("XDG_STATE_HOME", ".local/state"),
            config_dir: xdg("XDG_CONFIG_HOME", ".config"),
            home,
            home_real,
            cwd,
            cwd_real,
            hostname: nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .unwrap_or_default(),
            exe: std::env::current_exe().map_err(HostError::Exe)?,
            wsl2: Platform::detect() == Platform::Wsl2,
            nested: is_nested(&fs),
            memory_limit: memory::limit(&fs),
            broker: broker::look(&fs),
            env,
        })
    }

    /// A variable of the caller.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        lookup(&self.env, name)
    }
}

fn lookup<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter()
        .rev()
        .find(|(k, _)| k == name)
        .map(|(_, v)| v.as_os_str())
}

fn current_dir() -> std::io::Result<PathBuf> {
    let dir = std::env::current_dir()?;
    // getcwd(3): a directory outside the process's root is spelled "(unreachable)/…".
    if dir.is_absolute() {
        Ok(dir)
    } else {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// `$PWD` where it is an absolute path without `.` and `..` that names the current directory (POSIX `pwd -L`).
fn spelled_cwd(fs: &dyn FsView, pwd: Option<&OsStr>, real: &Path) -> PathBuf {
    let same = |p: &Path| {
        let (a, b) = (fs.meta(p), fs.meta(real));
        matches!((a, b), (Some(a), Some(b)) if (a.dev, a.ino) == (b.dev, b.ino))
    };
    pwd.map(Path::new)
        .filter(|p| p.is_absolute() && is_normal(p) && same(p))
        .map_or_else(|| real.to_path_buf(), Path::to_path_buf)
}

/// No `.`, `..` or doubled slash: `components` drops inner `.`, so the text is compared as well.
fn is_normal(path: &Path) -> bool {
    let mut rebuilt = PathBuf::new();
    for c in path.components() {
        if c == Component::ParentDir {
            return false;
        }
        rebuilt.push(c);
    }
    rebuilt.as_os_str() == path.as_os_str()
}

fn home_dir(fs: &dyn FsView, var: Option<&OsStr>, db: Option<PathBuf>) -> PathBuf {
    var.map(Path::new)
        .filter(|p| p.is_absolute())
        .filter(|p| fs.meta(p).is_some_and(|m| m.kind == fs_view::Kind::Dir))
        .map(Path::to_path_buf)
        .or(db)
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// Login name and home of a uid. `/etc/passwd` is read first: name services may mean a network and a few milliseconds.
fn account(uid: u32) -> (String, Option<PathBuf>) {
    let local = RealFs
        .read(Path::new("/etc/passwd"))
        .and_then(|text| passwd_entry(&text, uid));
    local.unwrap_or_else(
        || match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
            Ok(Some(u)) => (u.name, Some(u.dir)),
            Ok(None) | Err(_) => (uid.to_string(), None),
        },
    )
}

/// The first entry of `uid` in passwd(5) text.
fn passwd_entry(text: &[u8], uid: u32) -> Option<(String, Option<PathBuf>)> {
    use std::os::unix::ffi::OsStrExt;
    text.split(|b| *b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else {
            return None;
        };
        let id: u32 = std::str::from_utf8(id).ok()?.parse().ok()?;
        (id == uid).then(|| {
            let home = Path::new(OsStr::from_bytes(home));
            (
                String::from_utf8_lossy(name).into_owned(),
                home.is_absolute().then(|| home.to_path_buf()),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::fs_view::FakeFs;
    use super::*;

    #[test]
    fn pwd_is_believed_only_where_it_names_the_directory() {
        let fs = FakeFs::new()
            .dir("/data/work")
            .dir("/other")
            .link("/home/me", "/data");
        let real = Path::new("/data/work");
        let table = [
            (Some("/home/me/work"), "/home/me/work"),
            (Some("/data/work"), "/data/work"),
            (Some("/other"), "/data/work"),
            (Some("/home/me/./work"), "/data/work"),
            (Some("/home/me/../me/work"), "/data/work"),
            (Some("/home/me//work"), "/data/work"),
            (Some("work"), "/data/work"),
            (Some(""), "/data/work"),
            (Some("/missing"), "/data/work"),
            (None, "/data/work"),
        ];
        for (pwd, want) in table {
            assert_eq!(
                spelled_cwd(&fs, pwd.map(OsStr::new), real),
                Path::new(want),
                "{pwd:?}"
            );
        }
    }

    #[test]
    fn home_is_the_variable_if_it_exists_else_the_database() {
        let fs = FakeFs::new().dir("/home/me").file("/file", "");
        let db = || Some(PathBuf::from("/db"));
        let table = [
            (Some("/home/me"), db(), "/home/me"),
            (Some("home/me"), db(), "/db"),
            (Some("/missing"), db(), "/db"),
            (Some("/file"), db(), "/db"),
            (None, db(), "/db"),
            (None, None, "/"),
        ];
        for (var, db, want) in table {
            assert_eq!(home_dir(&fs, var.map(OsStr::new), db), Path::new(want));
        }
    }

    #[test]
    fn passwd_lines() {
        let text = b"root:x:0:0:root:/root:/bin/bash\nbroken\nme:x:1000:1000::/home/me:/bin/sh\nn:x:7:7:::\n";
        assert_eq!(
            passwd_entry(text, 1000),
            Some(("me".into(), Some("/home/me".into())))
        );
        assert_eq!(passwd_entry(text, 7), Some(("n".into(), None)));
        assert_eq!(passwd_entry(text, 8), None);
    }

    #[test]
    fn the_facts_of_this_process() {
        let facts = HostFacts::collect().unwrap();
        assert!(facts.cwd.is_absolute() && facts.home.is_absolute());
        assert!(facts.exe.is_absolute() && !facts.user.is_empty());
        assert!(facts.memory_limit > 1 << 20);
    }
}
