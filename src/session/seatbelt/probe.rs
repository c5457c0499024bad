//! Whether the system applies a profile, tried with one that refuses something: a profile of permissions alone is also applied inside of
//! another sandbox, and a real one is not.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Refused, Tools, WORDS};
use crate::exit;

/// The profile.
const PROFILE: &str = "(version 1)(allow default)(deny file-write* (literal \"/ccbox-probe\"))";
/// What is run in it.
const TRUE: &str = "/usr/bin/true";
/// A trial that hangs is one that failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries.
pub fn probe(tools: &Tools) -> Result<(), Refused> {
    let program = tools.sandbox_exec.display();
    let failed = |e: &io::Error| match e.raw_os_error() {
        Some(libc::EPERM) => Refused::Nested(exit::reason(e)),
        _ => Refused::Other(format!("`{program}`: {}", exit::reason(e))),
    };
    let mut child = Command::new(&tools.sandbox_exec)
        .args(["-p", PROFILE, "--", TRUE])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(&e))?;
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Refused::Other(format!("`{program}` did not end")));
            }
            Err(e) => return Err(failed(&e)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(WORDS).read_to_end(&mut said);
    }
    Err(Refused::by(status.code(), &String::from_utf8_lossy(&said)))
}
