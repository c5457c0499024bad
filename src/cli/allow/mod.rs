//! `ccbox allow`: the denials of a run as lines of a spec, printed, or added to a file that is named.

mod edit;
mod file;
mod offer;
pub(super) mod record;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::args::{AllowArgs, PolicyArgs};
use super::context;
use super::usage::UsageError;
use super::{Ending, Fault, answer};
use crate::exit;
use crate::host::{FsView, HostFacts, RealFs};
use crate::plan::Plan;
use crate::report::text::{escape, escape_os, labelled_process};
use crate::spec::{self, SpecSource};
use offer::Class;
pub(super) use offer::Entry;
use record::{Denied, Record, Which};

/// Answers, and writes where that is asked for.
pub(super) fn allow(args: &AllowArgs) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    if host.nested {
        return Err(UsageError::new(
            "inside a ccbox sandbox there is no record of denials",
            "ask outside",
        )
        .into());
    }
    let record = asked_for(args, &host)?;
    let offers = offers(&record, &host)?;
    let chosen = choose(args, &offers)?;
    match &args.write {
        Some(file) => write(file, &chosen, &host),
        None => answer(&listing(args, &record, &offers, &chosen)),
    }
}

fn asked_for(args: &AllowArgs, host: &HostFacts) -> Result<Record, UsageError> {
    let which = match &args.session {
        Some(id) => Which::Session(id),
        None if args.last => Which::Here(&host.cwd_real),
        None => {
            return Err(UsageError::new(
                "which run is not said",
                "ccbox allow --last, in the directory of the run, or --session ID",
            ));
        }
    };
    let found = record::read(&host.state_dir, host.uid, which).map_err(|e| UsageError {
        message: format!(
            "cannot read the record of denials in `{}`: {}",
            host.state_dir.display(),
            exit::reason(&e)
        ),
        hint: None,
    })?;
    found.ok_or_else(|| match which {
        Which::Session(id) => UsageError::new(
            format!("no denials of a run `{id}` are on record"),
            "the last twenty runs with denials are kept",
        ),
        Which::Here(_) => UsageError::new(
            "no denials of a run in this directory are on record",
            "a run is found where it was started, or by --session ID",
        ),
    })
}

/// What became of one denial.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Offer {
    /// A line, freely or only with `--force`.
    Line(Entry, Class),
    /// Nothing that could be added, and why.
    Remark(String),
}

/// Every denial with what can be offered for it, in the order of the record.
fn offers(record: &Record, host: &HostFacts) -> Result<Vec<Offer>, Fault> {
    let mut offers: Vec<Offer> = record
        .denials
        .iter()
        .map(|denied| offer(denied, &host.home_real))
        .collect();
    // A grant that a spec may not have (semantics 4) is none, whatever was recorded.
    let lines: Vec<Entry> = offers.iter().filter_map(entry).cloned().collect();
    if refused(&lines, host)?.is_some() {
        for offer in &mut offers {
            if let Some(one) = entry(offer).cloned()
                && let Some(why) = refused(&[one], host)?
            {
                *offer = Offer::Remark(why);
            }
        }
    }
    Ok(offers)
}

fn entry(offer: &Offer) -> Option<&Entry> {
    match offer {
        Offer::Line(entry, _) => Some(entry),
        Offer::Remark(_) => None,
    }
}

fn offer(denied: &Denied, home: &Path) -> Offer {
    // A run without path rules could have written the record itself.
    let line = |entry: Entry, class| {
        let class = match offer::class_by_place(home, &entry) {
            Class::Plain => class,
            class @ (Class::Secret | Class::System | Class::Never) => class,
        };
        Offer::Line(entry, class)
    };
    match (&denied.hint, denied.class) {
        (None, _) | (_, Class::Never) => Offer::Remark("no entry of a spec opens it".to_owned()),
        (Some(hint), class) => match offer::entry_of(hint) {
            Some((entry, false)) => line(entry, class),
            // It may have been made meanwhile.
            Some((entry, true)) if entry.path().is_some_and(|p| RealFs.kind(&p).is_some()) => {
                line(entry, class)
            }
            Some(_) | None => Offer::Remark(hint.clone()),
        },
    }
}

/// Options of a call that needs no working directory of its own.
fn anywhere() -> PolicyArgs {
    PolicyArgs {
        chdir: Some("/".into()),
        ..PolicyArgs::default()
    }
}

/// Why a spec with these lines would be refused, if it would be.
pub(super) fn refused(lines: &[Entry], host: &HostFacts) -> Result<Option<String>, Fault> {
    if lines.is_empty() {
        return Ok(None);
    }
    let text = toml_of(&lines.iter().map(|e| (e, String::new())).collect::<Vec<_>>());
    let request = context::request(&anywhere(), vec![SpecSource::Inline(text)], host)?;
    let loaded = match spec::load(&request) {
        Ok(loaded) => loaded,
        Err(e) => return Ok(Some(e.to_string())),
    };
    let resolved = Plan::resolve(&loaded.policy, host, &["true".into()], &RealFs);
    Ok(resolved.err().map(|e| e.to_string()))
}

/// The lines that are wanted, each with the numbers it is for.
type Chosen<'o> = BTreeMap<&'o Entry, Vec<usize>>;

fn choose<'o>(args: &AllowArgs, offers: &'o [Offer]) -> Result<Chosen<'o>, UsageError> {
    let mut chosen = Chosen::new();
    if args.write.is_some() && !args.all && args.numbers.is_empty() {
        return Err(UsageError::new(
            "which lines to write is not said",
            "their numbers, or --all",
        ));
    }
    for n in &args.numbers {
        let at = usize::try_from(*n).unwrap_or(usize::MAX);
        let offer = at.checked_sub(1).and_then(|i| offers.get(i));
        match offer {
            None => {
                return Err(UsageError {
                    message: format!("there is no denial {n}"),
                    hint: Some(format!("they are 1 to {}", offers.len())),
                });
            }
            Some(Offer::Remark(why)) => {
                return Err(UsageError {
                    message: format!("denial {n} cannot be allowed by a line of a spec"),
                    hint: Some(why.clone()),
                });
            }
            Some(Offer::Line(_, class)) if held_back(args, *class).is_some() => {
                return Err(UsageError::new(
                    format!("denial {n} is of {}", kept_words(*class)),
                    "--force allows it all the same",
                ));
            }
            Some(Offer::Line(entry, _)) => chosen.entry(entry).or_default().push(at),
        }
    }
    if args.numbers.is_empty() {
        for (i, offer) in offers.iter().enumerate() {
            if let Offer::Line(entry, class) = offer
                && held_back(args, *class).is_none()
            {
                chosen.entry(entry).or_default().push(i + 1);
            }
        }
    }
    for numbers in chosen.values_mut() {
        numbers.sort_unstable();
        numbers.dedup();
    }
    Ok(chosen)
}

/// Why a line is not offered without `--force`.
fn held_back(args: &AllowArgs, class: Class) -> Option<&'static str> {
    (class != Class::Plain && !args.force).then(|| kept_words(class))
}

fn kept_words(class: Class) -> &'static str {
    match class {
        Class::Secret => "a secret",
        Class::System => "the system",
        Class::Plain | Class::Never => "nothing to open",
    }
}

/// TOML with the lines and a remark behind each.
pub(super) fn toml_of(lines: &[(&Entry, String)]) -> String {
    let mut out = String::new();
    let mut sorted: Vec<&(&Entry, String)> = lines.iter().collect();
    sorted.sort();
    let mut at = ("", "");
    for (entry, remark) in sorted {
        if at != (entry.table, entry.key) {
            if !at.1.is_empty() {
                out.push_str("]\n");
            }
            if at.0 != entry.table {
                let gap = if out.is_empty() { "" } else { "\n" };
                let _ = writeln!(out, "{gap}[{}]", entry.table);
            }
            let _ = writeln!(out, "{} = [", entry.key);
            at = (entry.table, entry.key);
        }
        let remark = if remark.is_empty() {
            String::new()
        } else {
            format!(" # {remark}")
        };
        let _ = writeln!(out, "    {},{remark}", entry.value);
    }
    if !at.1.is_empty() {
        out.push_str("]\n");
    }
    out
}

/// Each denial as a comment, and below them the lines.
fn listing(args: &AllowArgs, record: &Record, offers: &[Offer], chosen: &Chosen<'_>) -> String {
    let mut out = format!(
        "# run {} of {}: {} denied\n",
        escape(&record.session_id),
        escape(&record.time),
        record.denials.len()
    );
    for (i, (denied, offer)) in record.denials.iter().zip(offers).enumerate() {
        let n = i + 1;
        if !args.numbers.is_empty() && !args.numbers.iter().any(|k| *k as usize == n) {
            continue;
        }
        let who = labelled_process(denied.process.as_deref(), denied.pid);
        let times = match denied.count {
            1 => String::new(),
            many => format!(", {many} times"),
        };
        let _ = writeln!(
            out,
            "# {n}: {} {}{who}{times}: {}",
            escape(&denied.action),
            escape(&denied.target),
            escape(&denied.rule)
        );
        match offer {
            Offer::Remark(why) => {
                let _ = writeln!(out, "#    not a line to add: {}", escape(why));
            }
            Offer::Line(_, class) => {
                if let Some(what) = held_back(args, *class) {
                    let _ = writeln!(out, "#    opens {what}: only with --force");
                }
            }
        }
    }
    if record.more > 0 {
        let _ = writeln!(out, "# and {} more, which are not on record", record.more);
    }
    let lines: Vec<(&Entry, String)> = chosen
        .iter()
        .map(|(entry, numbers)| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            (*entry, numbers.join(", "))
        })
        .collect();
    if !lines.is_empty() {
        out.push('\n');
        out.push_str(&toml_of(&lines));
    }
    out
}

/// Adds the lines to the file.
fn write(file: &Path, chosen: &Chosen<'_>, host: &HostFacts) -> Result<Ending, Fault> {
    if chosen.is_empty() {
        return Err(UsageError::new(
            "nothing of the run can be allowed by a line of a spec",
            "`ccbox allow --last` says why",
        )
        .into());
    }
    let entries: Vec<Entry> = chosen.keys().map(|e| (*e).clone()).collect();
    let target = file::Target::open(file, host)?;
    let trusted = target.trust(host)?;
    let (text, added) = edit::add(target.text()?, &entries).map_err(|e| target.not_edited(&e))?;
    let shown = escape_os(target.path().as_os_str());
    if added == 0 {
        return answer(&format!("{shown} has it all already\n"));
    }
    target.replace(&text, host)?;
    let mut out = format!("wrote {shown}\n");
    if trusted {
        super::rooms::trust(target.path(), host)?;
        out.push_str("recorded it as trusted\n");
    }
    for entry in &entries {
        let table = match entry.table {
            "" => String::new(),
            table => format!("[{table}] "),
        };
        let _ = writeln!(out, "  {table}{} = [{}]", entry.key, entry.value);
    }
    answer(&out)
}
