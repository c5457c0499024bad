//! Plan → Seatbelt profile (macOS). Pure; the order of the fields of [`Profile`] is the order of its rules.
//!
//! Public accounts differ on which rule wins: the last one that matches, the one for the exact operation, or the one with a filter.
//! So a profile is written that says the same under each reading: a refusal of everything first, permissions next, refusals last;
//! never a permission for a part of an operation, and never a permission after a refusal of a part.

mod doors;
mod text;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::plan::seatbelt::{Point, SeatbeltRules};
use text::{Writer, all, filters, literals, quoted};

/// What a run adds to the rules.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Tag that marks the violations of this run: `ccbox-` and 16 hexadecimal digits.
    pub tag: String,
    /// Port of the proxies on loopback.
    pub proxy_port: u16,
}

/// Why a path cannot stand in a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Control characters.
    #[error("`{0}` has a control character, which a Seatbelt profile cannot name")]
    Control(String),
    /// Not UTF-8.
    #[error("`{}` is not UTF-8, and a Seatbelt profile is text", .0.display())]
    NotText(PathBuf),
    /// Too long.
    #[error("`{0}…` is too long for a Seatbelt profile")]
    TooLong(String),
}

impl crate::exit::Failure for ProfileError {
    fn hint(&self) -> Option<String> {
        Some("name a directory above it, or rename it".to_owned())
    }
}

/// The profile of a run.
pub fn render(rules: &SeatbeltRules, run: &RunFacts) -> Result<String, ProfileError> {
    let mut w = Writer::new(&run.tag);
    doors(rules, &mut w)?;
    if !rules.fs_disabled {
        reads(rules, &mut w)?;
        writes(rules, &mut w)?;
        lifted(rules, &mut w)?;
        never(rules, &mut w)?;
        pins(rules, &mut w)?;
        programs(rules, &mut w)?;
    }
    network(rules, run.proxy_port, &mut w)?;
    Ok(w.out)
}

fn services(names: &[&str]) -> Result<Vec<String>, ProfileError> {
    let one = |n: &&str| Ok(format!("(global-name {})", quoted(n)?));
    names.iter().map(one).collect()
}

/// What leads out without a file or a socket.
fn doors(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("1. ways out of the sandbox");
    if rules.apple_events {
        w.reset("job-creation");
    } else {
        w.reset("appleevent-send lsopen job-creation");
        w.deny("mach-lookup", &services(&doors::LAUNCH)?);
    }
    w.deny("mach-lookup", &services(&doors::KEYCHAIN)?);
    w.reset("user-preference-write");
    w.deny("file-ioctl", &["(ioctl-command TIOCSTI)".to_owned()]);
    w.reset("signal");
    w.allow("signal", &["(target same-sandbox)".to_owned()]);
    Ok(())
}

fn reads(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("2. reads");
    points("file-read*", &rules.read, w)?;
    w.allow("file-read*", &literals(&rules.ways)?);
    Ok(())
}

fn writes(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("3. writes: nothing, then the grants by depth");
    w.reset("file-write*");
    let mut devices = literals(&doors::DEVICES.map(PathBuf::from))?;
    for e in doors::DEVICE_EXPRESSIONS {
        devices.push(format!("(regex {})", quoted(e)?));
    }
    w.allow("file-write*", &devices);
    points("file-write*", &rules.write, w)
}

/// Points in their order, those of one answer that follow each other in one rule.
fn points(operation: &str, list: &[Point], w: &mut Writer) -> Result<(), ProfileError> {
    for run in list.chunk_by(|a, b| a.allowed == b.allowed) {
        let filters = all(run.iter().map(|p| &p.at))?;
        if run.first().is_some_and(|p| p.allowed) {
            w.allow(operation, &filters);
        } else {
            w.deny(operation, &filters);
        }
    }
    Ok(())
}

/// Patterns of built-in profiles, and what `allow_create` lifts of them: only where the grants say so.
fn lifted(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    if rules.soft.is_empty() {
        return Ok(());
    }
    w.section("4. names of the profile");
    w.deny("file-write*", &all(&rules.soft)?);
    if rules.lifts.is_empty() {
        return Ok(());
    }
    let lifts = all(&rules.lifts)?.join(" ");
    for point in &rules.write {
        for filter in filters(&point.at)? {
            let both = [format!("(require-all {filter} (require-any {lifts}))")];
            if point.allowed {
                w.allow("file-write*", &both);
            } else {
                w.deny("file-write*", &both);
            }
        }
    }
    Ok(())
}

/// A second name is refused as well, whichever end the kernel looks at.
const NEVER: &str = "file-write* file-write-unlink file-link file-clone";

fn never(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("5. what is never written");
    // What is hidden gets no second name either.
    points("file-link file-clone", &rules.read, w)?;
    w.deny(NEVER, &all(&rules.never)?);
    Ok(())
}

fn pins(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("6. what is neither moved nor made");
    w.deny("file-write-unlink", &literals(&rules.pins)?);
    w.deny("file-write-create", &literals(&rules.unmade)?);
    Ok(())
}

fn programs(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("7. programs");
    points("process-exec*", &rules.exec, w)?;
    w.allow("process-exec*", &all(&rules.exec_open)?);
    let mut dangerous = literals(&doors::DANGEROUS.map(PathBuf::from))?;
    if !rules.apple_events {
        dangerous.extend(literals(&doors::SCRIPTING.map(PathBuf::from))?);
    }
    w.deny("process-exec*", &dangerous);
    Ok(())
}

fn network(rules: &SeatbeltRules, proxy: u16, w: &mut Writer) -> Result<(), ProfileError> {
    if !rules.filtered {
        return Ok(());
    }
    w.section("8. network: the proxies, and what the allow list names on loopback");
    w.reset("network*");
    let mut out: Vec<String> = std::iter::once(&proxy)
        .chain(&rules.ports)
        .map(|port| format!("(remote ip \"localhost:{port}\")"))
        .collect();
    if rules.dns {
        out.push(format!("(literal {})", quoted(doors::RESOLVER)?));
    }
    if rules.local_binding {
        out.push("(remote ip \"localhost:*\")".to_owned());
        let local = ["(local ip \"*:*\")".to_owned()];
        w.allow("network-bind network-inbound", &local);
    }
    out.extend(all(&rules.sockets)?);
    w.allow("network-outbound", &out);
    if !rules.sockets.is_empty() {
        w.deny("network-outbound", &literals(&rules.closed_sockets)?);
    }
    Ok(())
}
