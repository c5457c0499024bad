//! The laboratory from the side of a test: starts `lab.py`, runs commands on its user side, reads what the hosts saw.
//!
//! One laboratory a test: it takes a tenth of a second to start, and no test sees another's hits. It lives in a
//! temporary directory and ends with the process that holds it, also when that process is killed.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Where the laboratory shows the binary under test and its certificate authority.
pub(crate) const CCBOX: &str = "/opt/lab/bin/ccbox";
pub(crate) const CA: &str = "/opt/lab/ca.pem";
const PATH: &str =
    "/opt/lab/bin:/opt/lab/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A command that runs longer than this has hung.
const TIME_LIMIT: &str = "240";

/// Whom a command runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// An ordinary user with an empty home.
    User,
    /// uid 0 with all its capabilities and an empty `/root`, as in a container.
    Root,
}

/// An entry of the user database.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    gid: u32,
    home: String,
}

/// Entry `name` or, where `name` is none, that of `uid`.
fn account(name: Option<&str>, uid: u32) -> Option<Account> {
    let database = fs::read_to_string("/etc/passwd").expect("/etc/passwd is readable");
    database.lines().find_map(|line| {
        let field: Vec<&str> = line.split(':').collect();
        let [user, _, id, gid, _, home, ..] = field.as_slice() else {
            return None;
        };
        let found = Account {
            name: (*user).to_owned(),
            uid: id.parse().ok()?,
            gid: gid.parse().ok()?,
            home: (*home).to_owned(),
        };
        (name.map_or(found.uid == uid, |n| n == found.name)).then_some(found)
    })
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Out {
    /// Exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Out {
    /// The same, if the command succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// The same, if the command failed of its own and was not cut off by the time limit.
    #[track_caller]
    pub(crate) fn failure(self) -> Self {
        assert!(self.code.is_some_and(|c| c != 0 && c != 124), "{self}");
        self
    }

    /// The lines ccbox itself wrote.
    pub(crate) fn notes(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter(|l| l.starts_with("ccbox: "))
            .collect()
    }

    /// Asserts that the user is told that `target` (`host:port`) was refused.
    #[track_caller]
    pub(crate) fn names_denied(&self, target: &str) -> &Self {
        let head = format!("ccbox: denied network-outbound {target}");
        assert!(
            self.notes().iter().any(|l| l.starts_with(&head)),
            "no line `{head}` in:\n{self}"
        );
        self
    }
}

impl std::fmt::Display for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "exit code {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// The running laboratory.
#[derive(Debug)]
pub(crate) struct Lab {
    supervisor: Child,
    input: RefCell<Option<ChildStdin>>,
    output: RefCell<BufReader<ChildStdout>>,
    pid: u32,
    as_root: bool,
    user: Account,
    desks: Cell<u32>,
    /// Removed after the supervisor has ended.
    dir: tempfile::TempDir,
}

impl Drop for Lab {
    fn drop(&mut self) {
        // End of input ends the laboratory; waiting keeps its directory from vanishing below it.
        drop(self.input.borrow_mut().take());
        let _ = self.supervisor.wait();
        // Go writes its module cache read-only.
        let _ = Command::new("chmod")
            .args(["-R", "u+rwX"])
            .arg(self.dir.path())
            .status();
    }
}

impl Lab {
    /// Hosts without an ssh server.
    pub(crate) fn start() -> Self {
        Self::with(&[], &[])
    }

    /// Hosts with an OpenSSH server on `git.test` (and `github.com`) port 22.
    pub(crate) fn with_ssh() -> Self {
        Self::with(&["--ssh"], &[])
    }

    /// Hosts, further options of `lab.py`, and further programs to show in `/opt/lab/bin`.
    pub(crate) fn with(options: &[&str], programs: &[(&str, &Path)]) -> Self {
        let me = fs::metadata("/proc/self")
            .map(|m| std::os::unix::fs::MetadataExt::uid(&m))
            .expect("/proc is mounted");
        let as_root = me == 0;
        let user = if as_root {
            let name = std::env::var("CCBOX_TEST_USER").unwrap_or_else(|_| "ccbox-test".to_owned());
            account(Some(&name), 0).unwrap_or_else(|| {
                panic!("no user `{name}`: `tests/run` makes it, CCBOX_TEST_USER names another")
            })
        } else {
            account(None, me).expect("the caller is in /etc/passwd")
        };
        let dir = tempfile::Builder::new()
            .prefix("ccbox-lab.")
            .tempdir_in("/tmp")
            .expect("/tmp is writable");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["home", "root", "opt", "ssh", "git"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("hits.log"), "").unwrap();
        for name in ["home", "ssh", "git"] {
            chown(dir.path().join(name), Some(user.uid), Some(user.gid)).unwrap();
        }

        let mut python = Command::new("/usr/bin/python3");
        python.env_clear().env("PATH", PATH).current_dir("/");
        python
            .arg("-B")
            .arg(package().join("tests/lab/lab.py"))
            .arg(dir.path());
        python
            .args([
                user.uid.to_string(),
                user.gid.to_string(),
                user.home.clone(),
            ])
            .args(options);
        python.args(["--rust", &sysroot()]);
        for (name, path) in [("ccbox", ccbox_binary().as_path())].iter().chain(programs) {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(path);
            python.arg("--user-bin").arg(pair);
        }
        let mut supervisor = python
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let input = supervisor.stdin.take().unwrap();
        let mut output = BufReader::new(supervisor.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let pid = line
            .strip_prefix("ready ")
            .and_then(|n| n.trim().parse().ok());
        let pid = pid.expect("the laboratory starts; its message is above");
        let (input, output) = (RefCell::new(Some(input)), RefCell::new(output));
        Self {
            supervisor,
            input,
            output,
            pid,
            as_root,
            user,
            desks: Cell::new(0),
            dir,
        }
    }

    /// Everybody a test can run commands as here: the ordinary user, and root where the test runs as root.
    pub(crate) fn callers(&self) -> &'static [Caller] {
        if self.as_root {
            &[Caller::User, Caller::Root]
        } else {
            &[Caller::User]
        }
    }

    /// The ordinary user.
    pub(crate) fn user(&self) -> &Account {
        &self.user
    }

    /// A directory of the laboratory as the test sees it (`ssh`, `git`).
    pub(crate) fn outer(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The home directory of `caller` as commands see it, and as the test does.
    pub(crate) fn home(&self, caller: Caller) -> (String, PathBuf) {
        match caller {
            Caller::User => (self.user.home.clone(), self.outer("home")),
            Caller::Root => ("/root".to_owned(), self.outer("root")),
        }
    }

    /// A new directory in the caller's home with an empty `ws` in it.
    pub(crate) fn desk(&self, caller: Caller) -> Desk<'_> {
        let number = self.desks.get() + 1;
        self.desks.set(number);
        let (home, outer_home) = self.home(caller);
        let (inner, outer) = (
            format!("{home}/t{number}"),
            outer_home.join(format!("t{number}")),
        );
        let desk = Desk {
            lab: self,
            caller,
            inner,
            outer,
        };
        desk.make_dir("");
        desk.make_dir("ws");
        desk
    }

    /// A program started where the test hosts live, with their rights; it ends when the laboratory does.
    #[allow(dead_code, reason = "only the benchmarks bring a server of their own")]
    pub(crate) fn outside(&self, program: &Path, args: &[&str]) -> Command {
        let children = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = fs::read_to_string(children).expect("the laboratory runs");
        let mut command = Command::new("nsenter");
        command.args(["--target", children.split_whitespace().next().unwrap()]);
        command.args(["--net", "--pid"]);
        if !self.as_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(program).args(args);
        command
    }

    /// Runs a command with all rights over the user side's network and mounts.
    pub(crate) fn administer(&self, argv: &[&str]) -> Out {
        let mut command = self.command(Caller::Root, argv);
        let ways_in = if self.as_root { 4 } else { 6 };
        command.enter.truncate(ways_in);
        command.enter.push("--".into());
        command.output().success()
    }

    /// A command on the user side, started in `/` with a small clean environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, caller: Caller, argv: &[S]) -> LabCommand {
        let (home, _) = self.home(caller);
        let name = if caller == Caller::Root {
            "root"
        } else {
            &self.user.name
        };
        let mut enter: Vec<OsString> = vec![
            "--target".into(),
            self.pid.to_string().into(),
            "--net".into(),
            "--mount".into(),
        ];
        let user = &self.user;
        if !self.as_root {
            enter.extend(
                [
                    "--user",
                    "--preserve-credentials",
                    "--",
                    "unshare",
                    "--user",
                ]
                .map(OsString::from),
            );
            enter.extend(
                [
                    format!("--map-user={}", user.uid),
                    format!("--map-group={}", user.gid),
                ]
                .map(OsString::from),
            );
        } else if caller == Caller::User {
            enter.extend(["--", "setpriv", "--init-groups"].map(OsString::from));
            enter.extend(
                [
                    format!("--reuid={}", user.uid),
                    format!("--regid={}", user.gid),
                ]
                .map(OsString::from),
            );
        }
        enter.push("--".into());
        let env = [
            ("PATH", PATH),
            ("HOME", &home),
            ("USER", name),
            ("LOGNAME", name),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ];
        LabCommand {
            enter,
            dir: "/".into(),
            env: env.map(|(k, v)| (k.into(), v.into())).into(),
            argv: argv.iter().map(|a| a.as_ref().to_owned()).collect(),
        }
    }

    /// All that reached a test host so far, one event a line; the first word is the kind.
    pub(crate) fn hits(&self) -> Vec<String> {
        let mut line = String::new();
        writeln!(self.input.borrow_mut().as_mut().unwrap(), "sync").unwrap();
        self.output.borrow_mut().read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n", "the laboratory has ended");
        fs::read_to_string(self.outer("hits.log"))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// The hits that start with `prefix`.
    pub(crate) fn hits_of(&self, prefix: &str) -> Vec<String> {
        self.hits()
            .into_iter()
            .filter(|l| l.starts_with(prefix))
            .collect()
    }

    /// Forgets all hits so far.
    pub(crate) fn forget_hits(&self) {
        self.hits();
        fs::File::options()
            .write(true)
            .truncate(true)
            .open(self.outer("hits.log"))
            .unwrap();
    }
}

/// The binary under test. `CCBOX_TEST_BIN` names another one (an installed one, say).
fn ccbox_binary() -> PathBuf {
    std::env::var_os("CCBOX_TEST_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ccbox")), PathBuf::from)
}

/// The package's directory. At run time, because clones that share a target directory share executables too.
fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// The Rust toolchain's own directory: what `cargo` on PATH starts may lie below a home that the laboratory hides.
pub(crate) fn sysroot() -> String {
    let out = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--print", "sysroot"])
        .output();
    String::from_utf8(out.expect("rustc is on PATH").stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// A place for one attempt: files beside `ws`, the workspace in `ws`.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    lab: &'a Lab,
    caller: Caller,
    /// The directory as commands see it.
    pub(crate) inner: String,
    /// The same directory as the test sees it.
    pub(crate) outer: PathBuf,
}

impl Desk<'_> {
    fn give(&self, path: &Path) {
        if self.lab.as_root && self.caller == Caller::User {
            chown(path, Some(self.lab.user.uid), Some(self.lab.user.gid)).unwrap();
        }
    }

    /// The workspace as commands see it.
    pub(crate) fn ws(&self) -> String {
        format!("{}/ws", self.inner)
    }

    fn make_dir(&self, name: &str) {
        let path = self.outer.join(name);
        fs::create_dir(&path).unwrap();
        self.give(&path);
    }

    /// Writes a file (and its parents), owned by the caller.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let mut at = PathBuf::new();
        for part in Path::new(name)
            .parent()
            .into_iter()
            .flat_map(Path::components)
        {
            at.push(part);
            if !self.outer.join(&at).exists() {
                self.make_dir(at.to_str().unwrap());
            }
        }
        let path = self.outer.join(name);
        fs::write(&path, content).unwrap();
        self.give(&path);
        self
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.outer.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// A command in the workspace, outside any sandbox: the control.
    pub(crate) fn control<S: AsRef<OsStr>>(&self, argv: &[S]) -> LabCommand {
        self.lab.command(self.caller, argv).dir(self.ws())
    }

    /// The same in the sandbox, with a spec that lets the workspace be written and nothing but `allow` be reached.
    pub(crate) fn boxed<S: AsRef<OsStr>>(&self, allow: &[&str], argv: &[S]) -> LabCommand {
        self.with_spec(&self.spec(allow, ""), &[], argv)
    }

    /// The spec of [`Desk::boxed`]; `network` is further text of the `[network]` table.
    pub(crate) fn spec(&self, allow: &[&str], network: &str) -> String {
        format!(
            "[[bind_mounts]]\nhost_path = {:?}\n[filesystem]\nview = \"host\"\n[network]\nbaseline = false\nallowed_domains = {allow:?}\n{network}\n",
            self.ws()
        )
    }

    /// A command in the sandbox with this spec and these options of `run`.
    pub(crate) fn with_spec<S: AsRef<OsStr>>(
        &self,
        spec: &str,
        options: &[&str],
        argv: &[S],
    ) -> LabCommand {
        self.write("spec.toml", spec);
        let spec = format!("{}/spec.toml", self.inner);
        let head = [CCBOX, "run", "--spec", &spec]
            .into_iter()
            .chain(options.iter().copied())
            .chain(["--"]);
        let all: Vec<&OsStr> = head
            .map(OsStr::new)
            .chain(argv.iter().map(AsRef::as_ref))
            .collect();
        self.control(&all)
    }

    /// A command in the sandbox with no spec at all.
    pub(crate) fn bare<S: AsRef<OsStr>>(&self, argv: &[S]) -> LabCommand {
        let head = [CCBOX, "run", "--"].into_iter();
        let all: Vec<&OsStr> = head
            .map(OsStr::new)
            .chain(argv.iter().map(AsRef::as_ref))
            .collect();
        self.control(&all)
    }
}

/// A command to run in the laboratory.
#[derive(Debug, Clone)]
pub(crate) struct LabCommand {
    enter: Vec<OsString>,
    dir: OsString,
    env: Vec<(OsString, OsString)>,
    argv: Vec<OsString>,
}

impl LabCommand {
    /// Starts in this directory.
    pub(crate) fn dir(mut self, dir: impl Into<OsString>) -> Self {
        self.dir = dir.into();
        self
    }

    /// One more variable.
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The variables a machine behind a private authority sets (README D16), pointing at the laboratory's.
    pub(crate) fn trust_lab(self) -> Self {
        let names = [
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "REQUESTS_CA_BUNDLE",
            "PIP_CERT",
            "NODE_EXTRA_CA_CERTS",
            "GIT_SSL_CAINFO",
            "CARGO_HTTP_CAINFO",
        ];
        names.into_iter().fold(self, |c, n| c.env(n, CA))
    }

    /// The command as a process to start, with a limit of time.
    pub(crate) fn to_command(&self) -> Command {
        self.started_by(&["timeout", "-k", "5", TIME_LIMIT])
    }

    /// As [`Self::to_command`], without a limit: the process is the command itself.
    #[allow(dead_code, reason = "the long tier needs it")]
    pub(crate) fn to_bare_command(&self) -> Command {
        self.started_by(&[])
    }

    fn started_by(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.current_dir("/").args(&self.enter);
        command.args(["env", "-i", "-C"]).arg(&self.dir);
        for (name, value) in &self.env {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            command.arg(pair);
        }
        command.args(words).args(&self.argv);
        command
    }

    /// Runs it to the end.
    pub(crate) fn output(&self) -> Out {
        let out = self
            .to_command()
            .stdin(Stdio::null())
            .output()
            .expect("nsenter (util-linux) is installed");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        Out {
            code: out.status.code(),
            stdout: text(&out.stdout),
            stderr: text(&out.stderr),
        }
    }
}
