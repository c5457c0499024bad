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
use text::{Writer, all, literals, quoted};

/// What a run adds to the rules.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Tag that marks the violations of this run: `ccbox-` and 16 hexadecimal digits.
    pub tag: String,
    /// Port of the proxies on loopback.
    pub proxy_port: u16,
    /// The terminals that the command is given, by name.
    pub terminals: Vec<PathBuf>,
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
        reads(rules, &run.terminals, &mut w)?;
        writes(rules, &run.terminals, &mut w)?;
        lifted(rules, &mut w)?;
        never(rules, &mut w)?;
        pins(rules, &mut w)?;
        programs(rules, &mut w)?;
    }
    network(rules, run.proxy_port, &mut w)?;
    Ok(w.out)
}

/// What is behind a service that no profile of ours, or not every one, lets a command ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Passwords and keys: `macos.keychain`.
    Keychain,
    /// Programs outside: `macos.allow_apple_events`.
    AppleEvents,
    /// The network, past the proxy.
    Network,
    /// Something that no key opens.
    Closed,
}

/// By the name of the service.
#[must_use]
pub fn door(service: &str) -> Option<Door> {
    let rows: [(&[&str], Door); 4] = [
        (&doors::KEYCHAIN, Door::Keychain),
        (&doors::LAUNCH, Door::AppleEvents),
        (&doors::FETCH, Door::Network),
        (&doors::OTHERS, Door::Closed),
    ];
    let found = rows.into_iter().find(|(names, _)| names.contains(&service));
    found
        .map(|(_, door)| door)
        .or((service == doors::RESOLVER_SERVICE).then_some(Door::Network))
}

/// A program that drives others, which `macos.allow_apple_events` opens.
#[must_use]
pub fn is_scripting(program: &str) -> bool {
    doors::SCRIPTING.contains(&program)
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
    if !rules.keychain {
        w.deny("mach-lookup", &services(&doors::KEYCHAIN)?);
    }
    w.deny("mach-lookup", &services(&doors::OTHERS)?);
    w.reset("user-preference-write hid-control");
    w.deny("file-ioctl", &["(ioctl-command TIOCSTI)".to_owned()]);
    // Mounted over a name, other files take the place of those the rules are about; a catalog search tells hidden names.
    w.reset("file-mount file-search");
    // The environment of other processes is among what is told about them.
    w.deny(OTHER_PROCESSES, &["(target others)".to_owned()]);
    w.allow(OTHER_PROCESSES, &["(target same-sandbox)".to_owned()]);
    w.reset("signal");
    w.allow("signal", &["(target same-sandbox)".to_owned()]);
    Ok(())
}

/// To look at a process, and to take it over.
const OTHER_PROCESSES: &str = "process-info* mach-priv-task-port";

fn reads(rules: &SeatbeltRules, own: &[PathBuf], w: &mut Writer) -> Result<(), ProfileError> {
    w.section("2. reads");
    points("file-read*", &rules.read, w)?;
    w.allow("file-read*", &literals(&rules.ways)?);
    w.deny("file-read*", &all(&rules.hidden)?);
    w.deny("file-read*", &expressions(&doors::FOREIGN_DEVICES)?);
    let mut open = expressions(&[doors::HERE_DOCUMENTS])?;
    open.extend(terminals(own)?);
    w.allow("file-read*", &open);
    Ok(())
}

/// Where somebody sits, and those the command makes.
fn terminals(own: &[PathBuf]) -> Result<Vec<String>, ProfileError> {
    let mut out = literals(own)?;
    out.push(doors::OWN_TERMINAL.to_owned());
    Ok(out)
}

/// Links, FIFOs and device nodes have operations of their own. Of a link the kernel looks at the file that gets another name: what
/// cannot be written gets none where it could.
const WRITE: &str = "file-write* file-link file-mknod";

fn writes(rules: &SeatbeltRules, own: &[PathBuf], w: &mut Writer) -> Result<(), ProfileError> {
    w.section("3. writes: nothing, then the grants by depth");
    w.reset(WRITE);
    let mut devices = literals(&doors::DEVICES.map(PathBuf::from))?;
    devices.extend(expressions(&doors::DEVICE_EXPRESSIONS)?);
    devices.extend(terminals(own)?);
    w.allow("file-write*", &devices);
    points(WRITE, &rules.write, w)
}

fn expressions(list: &[&str]) -> Result<Vec<String>, ProfileError> {
    let one = |e: &&str| Ok(format!("(regex {})", quoted(e)?));
    list.iter().map(one).collect()
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
    w.deny(WRITE, &all(&rules.soft)?);
    if rules.lifts.is_empty() {
        return Ok(());
    }
    let lifts = all(&rules.lifts)?.join(" ");
    // Before the first permission everything is refused as it is.
    let from_first = rules.write.iter().skip_while(|p| !p.allowed);
    let from_first: Vec<&Point> = from_first.collect();
    for run in from_first.chunk_by(|a, b| a.allowed == b.allowed) {
        let places = all(run.iter().map(|p| &p.at))?.join("\n    ");
        let both = [format!(
            "(require-all\n    (require-any {places})\n    (require-any {lifts}))"
        )];
        if run.first().is_some_and(|p| p.allowed) {
            w.allow(WRITE, &both);
        } else {
            w.deny(WRITE, &both);
        }
    }
    Ok(())
}

/// A second name is refused as well, whichever end the kernel looks at.
const NEVER: &str = "file-write* file-write-unlink file-link file-clone file-mknod";

fn never(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("5. what is never written");
    // A clone is a copy under another name: of what is hidden there is none.
    points("file-clone", &rules.read, w)?;
    w.deny("file-clone", &all(&rules.hidden)?);
    w.deny(NEVER, &all(&rules.never)?);
    Ok(())
}

fn pins(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("6. what is neither moved nor made");
    let both = rules.pins.intersection(&rules.unmade);
    w.deny("file-write-unlink file-write-create", &literals(both)?);
    let kept = rules.pins.difference(&rules.unmade);
    w.deny("file-write-unlink", &literals(kept)?);
    let made = rules.unmade.difference(&rules.pins);
    w.deny("file-write-create", &literals(made)?);
    Ok(())
}

fn programs(rules: &SeatbeltRules, w: &mut Writer) -> Result<(), ProfileError> {
    w.section("7. programs");
    points("process-exec*", &rules.exec, w)?;
    w.deny("process-exec*", &all(&rules.hidden)?);
    let mut dangerous = literals(&doors::DANGEROUS.map(PathBuf::from))?;
    dangerous.extend(expressions(&[doors::DANGEROUS_FAMILY])?);
    if !rules.apple_events {
        dangerous.extend(literals(&doors::SCRIPTING.map(PathBuf::from))?);
    }
    w.deny("process-exec*", &dangerous);
    Ok(())
}

fn network(rules: &SeatbeltRules, proxy: u16, w: &mut Writer) -> Result<(), ProfileError> {
    if !rules.filtered {
        w.section("8. network: open, but for sockets of the file system");
        // A filter by path matches those and no others.
        w.deny("network-outbound", &["(subpath \"/\")".to_owned()]);
        let resolver = [format!("(literal {})", quoted(doors::RESOLVER)?)];
        w.allow("network-outbound", if rules.dns { &resolver } else { &[] });
        return Ok(());
    }
    w.section("8. network: the proxies, and what the allow list names on loopback");
    let mut fetch = services(&doors::FETCH)?;
    fetch.push(format!(
        "(xpc-service-name {})",
        quoted(doors::FETCH_BUNDLED)?
    ));
    if !rules.dns {
        fetch.extend(services(&[doors::RESOLVER_SERVICE])?);
    }
    w.deny("mach-lookup", &fetch);
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
