//! Starts the command: fork, confinement, signals as the caller had them, search along PATH, execve.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::sys::stat::stat;

use super::Scope;
use super::confinement::Confinement;
use crate::backend::{InnerPlan, Limit};
use crate::exit;
use crate::session::handover::Facts;
use crate::session::wire::{self, Report, SetupFailure, Step};
use crate::sys::libc;
use crate::sys::namespaces::CloneFlags;
use crate::sys::prctl;
use crate::sys::process::{self, Forked, exec, exit_now};
use crate::sys::signals::{self, SignalSet};
use crate::sys::tty;

/// execvp(3) without PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// After these execvp(3) looks in the next directory.
const NOT_HERE: [Errno; 5] = [
    Errno::ENOENT,
    Errno::ENOTDIR,
    Errno::ENODEV,
    Errno::ESTALE,
    Errno::ETIMEDOUT,
];
/// What execvp(3) runs a script without `#!` with.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// A command, ready to execute.
#[derive(Debug)]
pub(super) struct Command {
    /// Paths to try, in order.
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    /// LISTEN_PID is to be added with the command's own pid.
    listen_pid: bool,
    ignored: SignalSet,
    mask: SignalSet,
    own_group: bool,
    limits: Vec<(Limit, u64)>,
}

impl Command {
    /// Everything that can be made before the fork is made here.
    pub(super) fn new(plan: &InnerPlan, facts: &Facts) -> Result<Self, SetupFailure> {
        let text = |bytes: Vec<u8>| {
            CString::new(bytes).map_err(|e| {
                Step::Command.failed(&Errno::EINVAL.into(), OsString::from_vec(e.into_vec()))
            })
        };
        let program = plan
            .argv
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str);
        let path = plan.env.iter().rev().find(|(k, _)| k == "PATH");
        let env = plan
            .env
            .iter()
            .filter(|(k, _)| !(facts.listen_pid && k == "LISTEN_PID"))
            .map(|(k, v)| text([k.as_bytes(), b"=", v.as_bytes()].concat()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            candidates: candidates(program, path.map(|(_, v)| v.as_os_str()))
                .into_iter()
                .map(|c| text(c.into_vec()))
                .collect::<Result<_, _>>()?,
            argv: plan
                .argv
                .iter()
                .map(|a| text(a.as_bytes().to_vec()))
                .collect::<Result<_, _>>()?,
            env,
            listen_pid: facts.listen_pid,
            ignored: plan.ignored_signals.iter().copied().collect(),
            mask: facts.mask,
            own_group: plan.own_group,
            limits: plan.limits.clone(),
        })
    }

    /// Forks; the child becomes the command or says why not. All catchable signals are blocked in the caller.
    pub(super) fn start(
        self,
        control: &OwnedFd,
        confinement: Confinement<'_>,
        scope: Scope,
    ) -> Result<i32, SetupFailure> {
        match process::fork_into(CloneFlags::empty()) {
            Ok(Forked::Parent(pid)) => Ok(pid.as_raw()),
            Ok(Forked::Child) => self.become_command(control, confinement, scope),
            Err(e) => Err(Step::Fork.failed(&e, "")),
        }
    }

    /// In the child. The control socket is close-on-exec, so a successful execve ends this process' part in it.
    fn become_command(
        mut self,
        control: &OwnedFd,
        confinement: Confinement<'_>,
        scope: Scope,
    ) -> ! {
        if scope == Scope::Tree && prctl::die_with_parent().is_err() {
            exit_now(exit::OWN_FAILURE);
        }
        match confinement.enter() {
            Ok(true) => {}
            Ok(false) => exit_now(exit::OWN_FAILURE),
            Err(failure) => {
                let _ = wire::say(control, &Report::Failed(failure), &[]);
                exit_now(exit::OWN_FAILURE);
            }
        }
        if let Err(e) = self.limit() {
            let _ = wire::say(control, &Report::Failed(Step::Limits.failed(&e, "")), &[]);
            exit_now(exit::OWN_FAILURE);
        }
        // Every signal is blocked here. If it cannot be (it leads a session), it is as for any other command.
        if self.own_group {
            let _ = tty::lead_group();
        }
        if self.listen_pid
            && let Ok(pid) = CString::new(format!("LISTEN_PID={}", std::process::id()))
        {
            self.env.push(pid);
        }
        if let Err(e) = self.restore_signals() {
            let _ = wire::say(
                control,
                &Report::Failed(Step::Attributes.failed(&e, "")),
                &[],
            );
            exit_now(exit::OWN_FAILURE);
        }
        let errno = self.execute();
        let _ = wire::say(control, &Report::NotStarted(errno as i32), &[]);
        exit_now(exit::CANNOT_EXECUTE)
    }

    /// Last, so that nothing of ccbox runs under them.
    fn limit(&self) -> std::io::Result<()> {
        for (limit, value) in &self.limits {
            match limit {
                Limit::Data => prctl::limit_data(*value)?,
                Limit::Processes => prctl::limit_processes(*value)?,
                Limit::Cpu => prctl::limit_cpu(*value)?,
                Limit::Files => prctl::limit_files(*value)?,
            }
        }
        Ok(())
    }

    /// Dispositions first: a signal that waits since the fork must find the caller's setting when it is unblocked.
    fn restore_signals(&self) -> std::io::Result<()> {
        signals::set_default(libc::SIGPIPE)?;
        signals::set_default(libc::SIGXFSZ)?;
        for n in self.ignored.iter() {
            signals::set_ignored(n)?;
        }
        signals::set_mask(self.mask)?;
        Ok(())
    }

    /// execvp(3): tries the candidates in order and returns the errno that tells most.
    fn execute(&self) -> Errno {
        if let [only] = self.candidates.as_slice() {
            return self.execute_one(only);
        }
        let mut denied = false;
        for path in &self.candidates {
            // With the broker each try to execute waits for an answer; to ask whether anything is there does not.
            if matches!(stat(path.as_c_str()), Err(Errno::ENOENT | Errno::ENOTDIR)) {
                continue;
            }
            let errno = self.execute_one(path);
            if errno == Errno::EACCES {
                // A directory of PATH that cannot be searched does not hold the command, as shells see it; execvp(3)
                // would answer "permission denied" for every unknown name.
                denied |= stat(path.as_c_str()) != Err(Errno::EACCES);
            } else if errno == Errno::EPERM && stat(path.as_c_str()) == Err(Errno::EPERM) {
                // A directory that a Seatbelt profile hides.
            } else if !NOT_HERE.contains(&errno) {
                return errno;
            }
        }
        if denied { Errno::EACCES } else { Errno::ENOENT }
    }

    fn execute_one(&self, path: &CString) -> Errno {
        let errno = exec(path, &self.argv, &self.env);
        if errno == Errno::ENOEXEC {
            self.execute_script(path)
        } else {
            errno
        }
    }

    fn execute_script(&self, path: &CString) -> Errno {
        let mut argv = vec![SHELL.to_owned(), path.clone()];
        argv.extend(self.argv.iter().skip(1).cloned());
        exec(SHELL, &argv, &self.env)
    }
}

/// Becomes a command, with the caller's signals as they are; comes back only with the reason it could not.
pub(in crate::session) fn execute(argv: &[OsString], env: &[(OsString, OsString)]) -> Errno {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::EINVAL);
    let program = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let path = env.iter().rev().find(|(k, _)| k == "PATH");
    let make = || {
        Ok(Command {
            candidates: candidates(program, path.map(|(_, v)| v.as_os_str()))
                .iter()
                .map(|c| text(c.as_bytes()))
                .collect::<Result<_, _>>()?,
            argv: argv
                .iter()
                .map(|a| text(a.as_bytes()))
                .collect::<Result<_, _>>()?,
            env: env
                .iter()
                .map(|(k, v)| text(&[k.as_bytes(), b"=", v.as_bytes()].concat()))
                .collect::<Result<_, _>>()?,
            listen_pid: false,
            own_group: false,
            limits: Vec::new(),
            ignored: SignalSet::default(),
            mask: SignalSet::default(),
        })
    };
    make().map_or_else(|errno| errno, |command| command.execute())
}

/// Where a program of this name may be: itself if it has a slash, else in each directory of PATH (empty: here).
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    path.unwrap_or(OsStr::new(DEFAULT_PATH))
        .as_bytes()
        .split(|b| *b == b':')
        .map(|dir| {
            let mut full = dir.to_vec();
            if !full.is_empty() {
                full.push(b'/');
            }
            full.extend_from_slice(program.as_bytes());
            OsString::from_vec(full)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_as_execvp_does() {
        let find = |p: &str, path: Option<&str>| candidates(OsStr::new(p), path.map(OsStr::new));
        assert_eq!(find("x", Some("/a:/b/:")), ["/a/x", "/b//x", "x"]);
        assert_eq!(find("x", None), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(find("./x", Some("/a")), ["./x"]);
        assert_eq!(find("a/x", Some("/a")), ["a/x"]);
        assert!(find("", Some("/a")).is_empty());
    }
}
