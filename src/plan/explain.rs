//! `ccbox explain`: the plan in words and as JSON.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{Effect, Mount, Plan, place};
use crate::broker::decide::Rule;
use crate::broker::plan::{BrokerPlan, NamedRule, SocketPlan, Tree};
use crate::broker::reads::{ReadPlan, ReadRule};
use crate::policy::{Mode, NetworkMode, View};

/// The plan as text, one section after the other, for people.
#[must_use]
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |s: String| {
        out.push_str(&s);
        out.push('\n');
    };
    line(format!("view: {}", view_word(plan.view)));
    line(format!("mode: {}", mode_word(plan.mode)));
    line(format!("working directory: {}", shown(&plan.cwd)));
    line(format!("network: {}", network_word(plan.network.mode)));
    if !plan.network.forwarded_ports.is_empty() {
        let ports: Vec<String> = plan
            .network
            .forwarded_ports
            .iter()
            .map(u16::to_string)
            .collect();
        line(format!(
            "loopback ports forwarded to the host, not usable inside: {}",
            ports.join(", ")
        ));
    }
    for (key, port) in plan.network.user_proxies.iter() {
        line(format!(
            "behind port {} is a proxy with rules of its own: network.{key}, {}",
            port.value,
            place(&port.origin)
        ));
    }
    for way in plan.network.upstream.words() {
        line(format!("upstream proxy: {way}"));
    }
    if !plan.network.upstream.words().is_empty() {
        line("  their names are looked up there: private addresses behind them are that proxy's to refuse".to_owned());
    }
    if plan.fs_disabled {
        line("file rules: none (filesystem.disabled)".to_owned());
    }
    line(String::new());
    line("mounts, in order:".to_owned());
    for m in &plan.mounts {
        line(format!("  {}", mount_line(m)));
    }
    line(String::new());
    line("rules, strongest first:".to_owned());
    for r in &plan.rules.rules {
        line(format!(
            "  {:<11} {}  [{}, {}]",
            effect_word(r.effect),
            shown(&r.path),
            one_line(&r.rule),
            place(&r.origin)
        ));
    }
    if let Some(rule) = &plan.exec {
        line(String::new());
        line("programs are not executed (exec.deny_writable):".to_owned());
        for path in &rule.closed {
            line(format!("  below     {}", shown(path)));
        }
        for path in &rule.open {
            line(format!("  but below {}", shown(path)));
        }
    }
    if let Some(broker) = &plan.broker {
        names(broker, &mut line);
        if let Some(reads) = &broker.reads {
            reading(reads, &mut line);
        }
        if let Some(all) = &broker.sockets {
            sockets(all, &mut line);
        }
    }
    if !plan.caches.is_empty() {
        line(String::new());
        line("caches:".to_owned());
        for c in &plan.caches {
            line(format!("  {:<9} {}  [{}]", c.how, shown(&c.at), c.name));
        }
    }
    if !plan.env_dropped.is_empty() {
        line(String::new());
        line("environment dropped:".to_owned());
        for (name, group) in &plan.env_dropped {
            line(format!(
                "  {}  [{group}]",
                one_line(&name.to_string_lossy())
            ));
        }
    }
    if !plan.env_listed.is_empty() {
        line(String::new());
        line("environment kept, worth a look:".to_owned());
        for (name, group) in &plan.env_listed {
            line(format!(
                "  {}  [{group}]",
                one_line(&name.to_string_lossy())
            ));
        }
    }
    if !plan.gaps.is_empty() {
        line(String::new());
        line("not held on this host:".to_owned());
        for g in &plan.gaps {
            line(format!("  {}: {}", g.name, one_line(&g.text)));
        }
    }
    if !plan.notices.is_empty() {
        line(String::new());
        line("notices:".to_owned());
        for n in &plan.notices {
            line(format!("  {}", one_line(n)));
        }
    }
    out
}

/// Whom the command may talk to by path.
fn sockets(plan: &SocketPlan, line: &mut impl FnMut(String)) {
    line(String::new());
    line("Unix sockets that it may connect to, beside its own:".to_owned());
    for grant in &plan.granted {
        let below = if grant.directory { "  (and below)" } else { "" };
        line(format!("  {}{below}", shown(&grant.path)));
    }
    if plan.all {
        line("  all that are shown".to_owned());
    }
}

/// What is decided by name, when something is made, opened for writing, moved or removed.
fn names(broker: &BrokerPlan, line: &mut impl FnMut(String)) {
    line(String::new());
    line("decided by name in these directories:".to_owned());
    for tree in &broker.trees {
        let from = if tree.host == tree.guest {
            String::new()
        } else {
            format!("  from {}", shown(&tree.host))
        };
        let only = if tree.private {
            "  (git directories only)"
        } else {
            ""
        };
        line(format!("  {}{from}{only}", shown(&tree.guest)));
    }
    line("names that are never made, changed or removed there, strongest first:".to_owned());
    // The same words may stand for several places and for both spellings of a link.
    let mut told = HashSet::new();
    for rule in &broker.rules {
        let place = place(&rule.origin);
        if told.insert((&rule.words, place.clone())) {
            line(format!(
                "  {}  [{}{place}]",
                one_line(&rule.words),
                reach(&rule.rule)
            ));
        }
    }
    line(format!(
        "  git hooks and git configuration that runs programs, in every git directory  [{}]",
        if broker.git {
            "git preset"
        } else {
            "mandatory"
        }
    ));
    if !broker.exceptions.is_empty() {
        line(format!(
            "  {} exceptions to patterns of the profile (allow_create)",
            broker.exceptions.len()
        ));
    }
}

/// What is decided by name when something is opened for reading.
fn reading(reads: &ReadPlan, line: &mut impl FnMut(String)) {
    line(String::new());
    if !reads.decides {
        line("every open for reading is watched, which makes it slower (--trace)".to_owned());
        return;
    }
    let patterns = || reads.rules.iter().filter(|r| r.names.is_pattern());
    let more = if patterns().next().is_some() {
        "; never read, beside what is hidden:"
    } else {
        ""
    };
    line(format!(
        "every open for reading is decided by name, which makes it slower{more}"
    ));
    let mut told = HashSet::new();
    for rule in patterns() {
        let place = place(&rule.origin);
        if told.insert((&rule.words, place.clone())) {
            line(format!("  {}  [{place}]", one_line(&rule.words)));
        }
    }
}

fn reads_value(reads: &ReadPlan) -> Value {
    let rule = |r: &ReadRule| json!({ "rule": r.words, "origin": place(&r.origin) });
    let patterns = reads.rules.iter().filter(|r| r.names.is_pattern());
    json!({ "decided": reads.decides, "watched": reads.watched, "patterns": patterns.map(rule).collect::<Vec<_>>() })
}

/// Where a rule holds, where that is not what its words say.
fn reach(rule: &Rule) -> &'static str {
    match rule {
        Rule::Exact(_) | Rule::Pattern { .. } => "",
        Rule::AllBut { .. } => "but for what is writable in it, ",
        Rule::Repository(_) => "in every repository that is there before the run, ",
    }
}

/// The plan as one JSON object. Values of variables are left out: they may be secrets.
#[must_use]
pub fn value(plan: &Plan) -> Value {
    json!({
        "schema": 1,
        "view": view_word(plan.view),
        "mode": mode_word(plan.mode),
        "cwd": lossy(&plan.cwd),
        "network": { "mode": network_word(plan.network.mode), "forwarded_ports": plan.network.forwarded_ports,
            "user_ports": plan.network.user_ports, "upstream": plan.network.upstream.words() },
        "filesystem_disabled": plan.fs_disabled,
        "mounts": plan.mounts.iter().map(mount_value).collect::<Vec<_>>(),
        "rules": plan.rules.rules.iter().map(|r| json!({
            "effect": effect_word(r.effect), "path": lossy(&r.path), "rule": r.rule, "origin": place(&r.origin),
        })).collect::<Vec<_>>(),
        "names": plan.broker.as_ref().map(|b| names_value(b)),
        "reads": plan.broker.as_ref().and_then(|b| b.reads.as_ref()).map(reads_value),
        "writable": plan.writable.iter().map(|p| lossy(p)).collect::<Vec<_>>(),
        "exec": plan.exec.as_ref().map(|rule| json!({
            "closed": rule.closed.iter().map(|p| lossy(p)).collect::<Vec<_>>(),
            "open": rule.open.iter().map(|p| lossy(p)).collect::<Vec<_>>(),
        })),
        "caches": plan.caches.iter().map(|c| json!({ "name": c.name, "at": lossy(&c.at), "how": c.how })).collect::<Vec<_>>(),
        "environment": plan.env.iter().map(|(k, _)| k.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "environment_dropped": plan.env_dropped.iter().map(|(k, g)| json!({ "name": k.to_string_lossy(), "group": g })).collect::<Vec<_>>(),
        "environment_listed": plan.env_listed.iter().map(|(k, g)| json!({ "name": k.to_string_lossy(), "group": g })).collect::<Vec<_>>(),
        "gaps": plan.gaps.iter().map(|g| json!({ "name": g.name, "text": g.text })).collect::<Vec<_>>(),
        "notices": plan.notices,
    })
}

fn names_value(broker: &BrokerPlan) -> Value {
    let tree = |t: &Tree| json!({ "at": lossy(&t.guest), "from": lossy(&t.host) });
    let rule = |r: &NamedRule| {
        let (kind, path) = match &r.rule {
            Rule::Exact(path) | Rule::AllBut { path, .. } => ("path", Some(joined(path, "/"))),
            Rule::Repository(path) => ("repository", Some(joined(path, ""))),
            Rule::Pattern { .. } => ("pattern", None),
        };
        json!({ "kind": kind, "path": path, "rule": r.words, "origin": place(&r.origin) })
    };
    json!({
        "trees": broker.trees.iter().map(tree).collect::<Vec<_>>(),
        "exempt": broker.exempt.iter().map(|p| lossy(p)).collect::<Vec<_>>(),
        "rules": broker.rules.iter().map(rule).collect::<Vec<_>>(),
        "exceptions": broker.exceptions.len(),
        "git_preset": broker.git,
    })
}

fn joined(path: &[Vec<u8>], start: &str) -> String {
    let parts: Vec<_> = path.iter().map(|c| String::from_utf8_lossy(c)).collect();
    format!("{start}{}", parts.join("/"))
}

/// Where a mount stands inside.
pub(super) fn destination(mount: &Mount) -> Option<&Path> {
    match mount {
        Mount::RoBind { dst, .. }
        | Mount::Bind { dst, .. }
        | Mount::State { dst, .. }
        | Mount::Overlay { dst, .. }
        | Mount::Tmpfs { dst, .. }
        | Mount::Dir { dst, .. }
        | Mount::Symlink { dst, .. }
        | Mount::File { dst, .. }
        | Mount::Data { dst, .. }
        | Mount::Cover { dst, .. }
        | Mount::Dev { dst }
        | Mount::Proc { dst } => Some(dst),
        Mount::RemountRo { .. } => None,
    }
}

fn mount_line(m: &Mount) -> String {
    let (word, dst, extra) = mount_parts(m);
    let mut out = format!("{word:<10} {}", shown(dst));
    if let Some(extra) = extra {
        // Writing into a String cannot fail.
        let _ = write!(out, "  {}", one_line(&extra));
    }
    out
}

fn mount_value(m: &Mount) -> Value {
    let (word, dst, extra) = mount_parts(m);
    json!({ "kind": word, "at": lossy(dst), "detail": extra })
}

fn mount_parts(m: &Mount) -> (&'static str, &Path, Option<String>) {
    let from = |src: &Path, dst: &Path| (src != dst).then(|| format!("from {}", lossy(src)));
    match m {
        Mount::RoBind { src, dst } => ("read-only", dst, from(src, dst)),
        Mount::Bind { src, dst } => ("writable", dst, from(src, dst)),
        Mount::State { src, dst } => ("state", dst, from(src, dst)),
        Mount::Overlay { upper, dst, .. } => (
            "cache",
            dst,
            Some(format!("changes kept in {}", lossy(upper))),
        ),
        Mount::Tmpfs { dst, size, .. } => (
            "private",
            dst,
            size.map(|s| format!("at most {} MiB", s >> 20)),
        ),
        Mount::Dir { dst, .. } => ("directory", dst, None),
        Mount::Symlink { target, dst } => ("link", dst, Some(format!("to {}", lossy(target)))),
        Mount::File { dst, .. } | Mount::Data { dst, .. } => ("generated", dst, None),
        Mount::Cover { dst, .. } => ("hidden", dst, None),
        Mount::RemountRo { dst } => ("sealed", dst, None),
        Mount::Dev { dst } => ("dev", dst, None),
        Mount::Proc { dst } => ("proc", dst, None),
    }
}

fn view_word(v: View) -> &'static str {
    match v {
        View::Bound => "bound",
        View::Host => "host",
    }
}

fn mode_word(m: Mode) -> &'static str {
    match m {
        Mode::Chat => "chat",
        Mode::Review => "review",
        Mode::Plan => "plan",
        Mode::Orchestrate => "orchestrate",
    }
}

fn network_word(m: NetworkMode) -> &'static str {
    match m {
        NetworkMode::Filtered => "filtered",
        NetworkMode::Off => "off",
        NetworkMode::Open => "open",
    }
}

fn effect_word(e: Effect) -> &'static str {
    match e {
        Effect::Write => "write",
        Effect::Read => "read",
        Effect::NeverWrite => "never-write",
        Effect::Hide => "hide",
    }
}

fn lossy(p: &Path) -> String {
    p.to_string_lossy().into_owned()
}

fn shown(p: &Path) -> String {
    one_line(&p.to_string_lossy())
}

/// Names are not trusted: control and bidi characters would rewrite the terminal.
fn one_line(s: &str) -> String {
    s.chars()
        .flat_map(|c| {
            let hostile = c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let plain = (!hostile).then_some(c);
            let escaped = hostile.then(|| c.escape_default());
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}
