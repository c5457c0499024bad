//! `ccbox learn`: one run under the hard denies, and the spec that what it touched asks for.
//!
//! What the command touches is its own choice, and it may know that it is watched. So nothing here is more than a proposal for a person
//! to read, and what must never be granted is kept out by the places themselves, whatever was touched.

mod needs;
mod text;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::allow::{self, Entry};
use super::args::{LearnArgs, PolicyArgs};
use super::context::{self, Extra, Prepared, prepare, require_command};
use super::engine::{self, Chosen, Offer};
use super::launch::Launch;
use super::machine::Machine;
use super::reads::entry;
use super::usage::UsageError;
use super::{Ending, Fault, answer, diagnose, ending, events, limits};
use crate::broker::supervise::Touch;
use crate::exit;
use crate::host::fs_view::Kind;
use crate::host::{FsView, HostFacts, RealFs};
use crate::plan::{self, Effect, Plan};
use crate::report::Reporter;
use crate::report::access::AccessLog;
use crate::report::text::{escape, escape_os};
use crate::session::Outcome;
use crate::spec::{self, SpecSource};
use crate::sys::fds;
use needs::Places;
use text::{Needed, heading, text_of};

/// What the kernel reads of a script to find its interpreter (BINPRM_BUF_SIZE of linux/binfmts.h).
const LONGEST_LINE: u64 = 256;
/// Different touches that are remembered.
const MOST: usize = 500_000;

/// Each path as it was written, with what was done to it.
type Touches = BTreeSet<(PathBuf, Touch)>;

/// What calls of the run touched.
#[derive(Debug, Default)]
pub(super) struct Learned {
    touches: Mutex<Touches>,
}

impl Learned {
    pub(super) fn touched(&self, path: &Path, touch: Touch) {
        let mut touches = self.touches.lock().unwrap_or_else(PoisonError::into_inner);
        if touches.len() < MOST {
            touches.insert((path.to_path_buf(), touch));
        }
    }

    fn take(&self) -> Touches {
        std::mem::take(&mut self.touches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs the command and prints the spec.
pub(super) fn learn(
    args: &LearnArgs,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    require_command(&args.command)?;
    if machine.is_mac() {
        return Err(UsageError::new(
            "`ccbox learn` is for Linux: on macOS nobody sees what is allowed",
            "`ccbox allow --last` turns what was refused into lines of a spec",
        )
        .into());
    }
    let host = HostFacts::collect()?;
    if host.nested {
        return Err(UsageError::new(
            "inside a ccbox sandbox there is nothing to learn: its rules are set",
            "start this call outside",
        )
        .into());
    }
    let (home, cwd) = (&host.home_real, &host.cwd_real);
    let secret = plan::is_secret(home, cwd) || plan::holds_secret(home, cwd);
    if home.starts_with(cwd) || secret || plan::is_system(cwd) {
        return Err(UsageError::new(
            format!(
                "`{}` is no place to learn in: the spec would open it as a whole",
                escape_os(host.cwd_real.as_os_str())
            ),
            "change into the directory of the work",
        )
        .into());
    }
    let (policy, specs) = wide_open(args, &host)?;
    let extra = Extra {
        own: args.write.as_deref(),
        trace: true,
        by_path: false,
    };
    let ready = prepare(host, &policy, specs, &args.command, extra, machine)?;
    let chosen = engine::choose(&ready.loaded.policy, &Offer::of(&RealFs, machine))?;
    engine::holds(&ready.plan, &ready.loaded.policy, &chosen)?;
    if matches!(chosen, Chosen::None(_)) {
        return Err(UsageError::new(
            "nothing can be learned without a sandbox: nobody sees what the command does",
            "`ccbox probe` says what is missing",
        )
        .into());
    }
    for notice in &ready.loaded.policy.loud_notices {
        report.loud_notice(notice);
    }
    report.notice("learning: what the command does in this directory, at home and on the network is real; secrets and mandatory places stay closed");
    let (outcome, learned, hosts) = watched(&ready, &chosen, report, machine)?;
    report.finish();
    allow::record::keep(
        report,
        &ready.host,
        &ready.plan,
        &events::fresh_session_id(),
    );
    if let Outcome::NotStarted { .. } = outcome {
        return ending::of(
            outcome,
            &ready.plan.argv,
            &ready.host,
            report,
            Some(&ready.plan),
        );
    }
    let mut text = heading(args, &ready, outcome, report.denials().len());
    text.push_str(&text_of(&needed(&ready, learned, &hosts)?));
    hand_over(args, &ready.host, &text)
}

/// The options and the spec of the run: everything is open that no hard deny closes.
fn wide_open(
    args: &LearnArgs,
    host: &HostFacts,
) -> Result<(PolicyArgs, Vec<SpecSource>), UsageError> {
    let no_words = || UsageError {
        message: "the current or the home directory cannot be named in a spec: it is not UTF-8"
            .to_owned(),
        hint: None,
    };
    let cwd = entry(&host.cwd_real).ok_or_else(no_words)?;
    let home = entry(&host.home_real).ok_or_else(no_words)?;
    let spec = format!(
        "[filesystem]\nview = \"host\"\nallow_write = [{cwd}, {home}]\n[network]\nallowed_domains = [\"*\"]\n"
    );
    let policy = PolicyArgs {
        params: args.params.clone(),
        protect: args.protect.clone(),
        deny_read: args.deny_read.clone(),
        deny_host: args.deny_host.clone(),
        ..PolicyArgs::default()
    };
    Ok((policy, vec![SpecSource::Inline(spec)]))
}

/// Runs it, and says what it touched and which hosts it reached.
fn watched(
    ready: &Prepared,
    chosen: &Chosen,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<(Outcome, Touches, BTreeSet<String>), Fault> {
    let cannot = |e: &io::Error| UsageError {
        message: format!("cannot keep what is learned: {}", exit::reason(e)),
        hint: None,
    };
    let log = fds::memory_file(c"hosts", b"").map_err(|e| cannot(&e))?;
    let mut hosts = File::from(fds::duplicate(&log).map_err(|e| cannot(&e))?);
    let learned = Arc::new(Learned::default());
    let session_id = events::fresh_session_id();
    // A limit of a layer above holds while it learns, too.
    let limits = &ready.loaded.policy.limits;
    let held = limits::hold(limits, chosen, &limits::Facts::look(ready.host.uid, limits))?;
    let launch = Launch {
        ready,
        keep_fds: &[],
        session_id: &session_id,
        report,
        access: Some(Arc::new(AccessLog::new(
            File::from(log),
            session_id.clone(),
        ))),
        limits: &held,
        capture: None,
        own_group: false,
        learned: Some(Arc::clone(&learned)),
        early: Cell::new(None),
        machine,
    };
    let outcome = launch.run(chosen)?;
    let mut lines = String::new();
    hosts
        .rewind()
        .and_then(|()| hosts.read_to_string(&mut lines))
        .map_err(|e| cannot(&e))?;
    Ok((outcome, learned.take(), reached(&lines)))
}

/// The hosts that connections were made to, as narrow as an entry can say it (semantics 32).
fn reached(log: &str) -> BTreeSet<String> {
    log.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| {
            let text = |key: &str| line.get(key).and_then(serde_json::Value::as_str);
            let connected = !matches!(text("front")?, "unix" | "dns");
            let target = text("target")?;
            let usual = [":443", ":80"];
            let host = usual.iter().find_map(|port| target.strip_suffix(port));
            (connected && text("decision")? == "allow").then(|| host.unwrap_or(target).to_owned())
        })
        .collect()
}

fn needed(ready: &Prepared, touches: Touches, hosts: &BTreeSet<String>) -> Result<Needed, Fault> {
    let (plan, host) = (&ready.plan, &ready.host);
    let (cwd, home) = (&host.cwd_real, &host.home_real);
    let mut need = Needed {
        cwd: entry(cwd).unwrap_or_default(),
        ..Needed::default()
    };
    let mut opened: BTreeSet<PathBuf> = BTreeSet::new();
    let mut written: BTreeSet<PathBuf> = BTreeSet::new();
    let mut made: BTreeSet<PathBuf> = BTreeSet::new();
    // Where home is not writable as a whole, caches are private copies, and need no grant.
    let with_copies = base(
        &Needed {
            cwd: need.cwd.clone(),
            caches: true,
            ..Needed::default()
        },
        host,
    )?;
    let mut touches = touches;
    touches.extend(started(ready).into_iter().map(|path| (path, Touch::Read)));
    for (path, touch) in touches {
        let real = match (touch, path.parent(), path.file_name()) {
            (Touch::Entry, Some(dir), Some(name)) => plan::real_path(&RealFs, dir).join(name),
            _ => plan::real_path(&RealFs, &path),
        };
        let changes = matches!(touch, Touch::Changed | Touch::Entry);
        if changes && plan::check::is_a_cache(&with_copies, &real) {
            need.caches = true;
            continue;
        }
        if !plan::check::is_of_the_host(plan, &real) || is_closed(plan, home, &real) {
            continue;
        }
        let inside = real.starts_with(cwd);
        match touch {
            Touch::Read if !inside => drop(opened.insert(path)),
            // A directory that is granted shows all that is in it, so that one is no need but its files are.
            Touch::Read | Touch::Listed => {}
            Touch::Changed | Touch::Entry if inside => need.changes = true,
            Touch::Changed => drop(written.insert(real)),
            Touch::Entry => drop(made.insert(real)),
        }
    }
    let secrets = |dir: &Path| closes(plan, home, dir);
    let places = Places {
        home,
        holds_secret: &secrets,
        is_system: &plan::is_system,
    };
    let mut writable: BTreeSet<PathBuf> = BTreeSet::new();
    let mut elsewhere: Vec<PathBuf> = Vec::new();
    for path in made {
        let dir = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        let kind = RealFs.kind(&path);
        if places.is_grantable(&dir) {
            writable.insert(dir);
        } else if kind.is_some() && (kind != Some(Kind::Dir) || places.is_grantable(&path)) {
            writable.insert(path);
        } else {
            elsewhere.push(path);
        }
    }
    writable.extend(
        written
            .into_iter()
            .filter(|path| RealFs.kind(path).is_some()),
    );
    let writable = needs::topmost(&writable);
    // A directory is there now, and what was made in it has its own entry.
    elsewhere.retain(|path| {
        RealFs.kind(path).is_none() || !writable.iter().any(|w| w.starts_with(path))
    });
    need.remarks.extend(elsewhere.iter().map(|path| {
        format!(
            "made or removed, in a directory that is not opened as a whole: {}",
            escape_os(path.as_os_str())
        )
    }));
    add(&mut need, "filesystem", "allow_write", &writable);
    if !need.caches {
        let shown = base(&need, host)?;
        opened.retain(|path| {
            let real = plan::real_path(&RealFs, path);
            RealFs.kind(path).is_some()
                && !writable.iter().any(|w| real.starts_with(w))
                && !plan::check::read(&shown, &real).allowed
        });
        add(
            &mut need,
            "filesystem",
            "allow_read",
            &needs::collapse(&opened, places),
        );
    }
    for target in hosts {
        need.entries.insert(Entry {
            table: "network",
            key: "allowed_domains",
            value: toml::Value::String(target.clone()).to_string(),
        });
    }
    drop_refused(&mut need, host)?;
    Ok(need)
}

/// What the kernel executes first, which nobody is asked about: the program, and the interpreter its first line names.
fn started(ready: &Prepared) -> Vec<PathBuf> {
    let name = ready.plan.argv.first();
    let Some(program) = name.and_then(|name| diagnose::on_host(name, &ready.host)) else {
        return Vec::new();
    };
    let mut head = Vec::new();
    let read = File::open(&program).and_then(|f| f.take(LONGEST_LINE).read_to_end(&mut head));
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let interpreter = read.ok().and(line.strip_prefix(b"#!")).and_then(|line| {
        let mut words = line.split(|b| matches!(b, b' ' | b'\t'));
        words
            .find(|word| !word.is_empty())
            .map(|word| PathBuf::from(OsStr::from_bytes(word)))
    });
    std::iter::once(program).chain(interpreter).collect()
}

/// It is hidden in this run, or a secret in another one.
fn is_closed(plan: &Plan, home: &Path, path: &Path) -> bool {
    plan::is_secret(home, path) || plan::hiding(&plan.rules.rules, path).is_some()
}

/// Something in it is closed, or it is itself.
fn closes(plan: &Plan, home: &Path, dir: &Path) -> bool {
    let hides = |r: &plan::BookRule| r.effect == Effect::Hide && r.path.starts_with(dir);
    plan::holds_secret(home, dir)
        || is_closed(plan, home, dir)
        || plan.rules.rules.iter().any(hides)
}

fn add(need: &mut Needed, table: &'static str, key: &'static str, paths: &BTreeSet<PathBuf>) {
    for path in paths {
        match entry(path) {
            Some(value) => drop(need.entries.insert(Entry { table, key, value })),
            None => need.remarks.push(format!(
                "its name is not UTF-8, so that no spec can name it: {}",
                escape_os(path.as_os_str())
            )),
        }
    }
}

/// What the spec would show if it said nothing about reading.
fn base(need: &Needed, host: &HostFacts) -> Result<Plan, Fault> {
    let specs = vec![SpecSource::Inline(text_of(need))];
    let request = context::request(&PolicyArgs::default(), specs, host)?;
    let loaded = spec::load(&request)?;
    Ok(Plan::resolve(
        &loaded.policy,
        host,
        &["true".into()],
        &RealFs,
    )?)
}

/// Entries that no spec may have become remarks.
fn drop_refused(need: &mut Needed, host: &HostFacts) -> Result<(), Fault> {
    let all: Vec<Entry> = need.entries.iter().cloned().collect();
    if allow::refused(&all, host)?.is_none() {
        return Ok(());
    }
    for one in all {
        if let Some(why) = allow::refused(std::slice::from_ref(&one), host)? {
            need.remarks
                .push(format!("{} = [{}]: {}", one.key, one.value, escape(&why)));
            need.entries.remove(&one);
        }
    }
    Ok(())
}

fn hand_over(args: &LearnArgs, host: &HostFacts, text: &str) -> Result<Ending, Fault> {
    let Some(file) = &args.write else {
        return answer(text);
    };
    let path = host.cwd_real.join(file);
    // Neither a file nor a link that stands there is touched.
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&path)
        .and_then(|mut f| f.write_all(text.as_bytes()));
    made.map_err(|e| UsageError {
        message: format!(
            "cannot make `{}`: {}",
            escape_os(file.as_os_str()),
            exit::reason(&e)
        ),
        hint: (e.kind() == io::ErrorKind::AlreadyExists)
            .then(|| "a file that is there is not overwritten".to_owned()),
    })?;
    Ok(Ending::Code(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_that_were_reached() {
        let log = "{\"front\":\"http\",\"target\":\"a.example:443\",\"decision\":\"allow\"}\n\
            {\"front\":\"socks\",\"target\":\"b.example:22\",\"decision\":\"allow\"}\n\
            {\"front\":\"http\",\"target\":\"no.example:443\",\"decision\":\"deny\"}\n\
            {\"front\":\"unix\",\"target\":\"/s\",\"decision\":\"allow\"}\nnonsense\n";
        let hosts: Vec<String> = reached(log).into_iter().collect();
        assert_eq!(hosts, ["a.example", "b.example:22"]);
    }
}
