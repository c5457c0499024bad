//! `ccbox explain`: what `run` with the same options would do, in words or as JSON. Nothing is run.

use std::ffi::OsString;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::ExplainArgs;
use super::context::{Prepared, prepare_shown};
use super::engine::{self, Chosen, Offer};
use super::machine::Machine;
use super::usage::UsageError;
use super::{Ending, Fault, answer, limits, render, rooms};
use crate::backend::NetSetup;
use crate::host::RealFs;
use crate::host::bwrap::PLACES;
use crate::plan::{self, PlanError, place};
use crate::policy::host_rule::HostRule;
use crate::policy::{Layer, NetworkMode, Ruled};
use crate::report::text::{escape, escape_os};
use crate::spec::{LayerInfo, SpecSource};

/// Explains.
pub(super) fn explain(
    args: &ExplainArgs,
    specs: Vec<SpecSource>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let ready = prepare_shown(&args.policy, specs, &args.command, machine)?;
    let backend = Backend::of(&ready, machine)?;
    if !args.json {
        return answer(&words(&ready, &backend));
    }
    let mut text =
        serde_json::to_string_pretty(&object(&ready, &backend)).map_err(|e| UsageError {
            message: format!("cannot write the answer as JSON: {e}"),
            hint: None,
        })?;
    text.push('\n');
    answer(&text)
}

/// What would run the plan. A host without a sandbox still gets its plan explained.
struct Backend {
    name: &'static str,
    /// The status line, or the reason of a refusal.
    says: Option<String>,
    command_line: String,
    /// Names of variables beside those of the plan.
    added: Vec<OsString>,
    /// How limits are held, and why one is not.
    limits: (Vec<String>, Option<String>),
}

/// Semantics 13.
const SSH_KEYS: &str = "  git over ssh goes through `ccbox connect`; keys would come from a granted agent only, and agents \
     cannot be granted yet\n";

impl Backend {
    fn of(ready: &Prepared, machine: &Machine) -> Result<Self, Fault> {
        let offer = Offer::of(&RealFs, machine);
        let (chosen, says) = match engine::choose(&ready.loaded.policy, &offer) {
            Ok(Chosen::None(line)) => (Chosen::None(String::new()), Some(line)),
            Ok(chosen) => {
                let refusal = engine::holds(&ready.plan, &ready.loaded.policy, &chosen).err();
                let words = |e: PlanError| match &e.hint {
                    Some(hint) => format!("refused: {e}; hint: {hint}"),
                    None => format!("refused: {e}"),
                };
                (chosen, refusal.map(words))
            }
            Err(e) => {
                let usual = PLACES.first().copied().unwrap_or("bwrap");
                let hint = e.hint().map(|h| format!("; hint: {h}")).unwrap_or_default();
                (Chosen::Bwrap(usual.into()), Some(format!("{e}{hint}")))
            }
        };
        let net = render::net_setup(&chosen, ready.plan.network.mode);
        let proxies = match net {
            NetSetup::PreStage | NetSetup::Inner => rooms::proxy_env(ready).set,
            NetSetup::Host if chosen == Chosen::Seatbelt => rooms::proxy_env(ready).set,
            NetSetup::Host
                if matches!(chosen, Chosen::Landlock(_))
                    && ready.plan.network.mode == NetworkMode::Filtered =>
            {
                rooms::proxy_env(ready).set
            }
            NetSetup::Host => Vec::new(),
        };
        let wanted = &ready.loaded.policy.limits;
        let facts = limits::Facts::look(ready.host.uid, wanted);
        let limits = match limits::hold(wanted, &chosen, &facts) {
            Ok(held) => (held.words, None),
            Err(e) => (Vec::new(), Some(format!("refused: {e}"))),
        };
        let own = ["CCBOX", "CCBOX_BACKEND", "CCBOX_SESSION_ID", "PWD"].map(OsString::from);
        Ok(Self {
            added: proxies
                .into_iter()
                .map(|(name, _)| name)
                .chain(own)
                .collect(),
            limits,
            name: chosen.backend(),
            says,
            command_line: render::command_line(ready, &chosen)?,
        })
    }
}

fn words(ready: &Prepared, backend: &Backend) -> String {
    let policy = &ready.loaded.policy;
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    if ready.host.nested {
        line(
            "inside a ccbox sandbox: without a given spec, commands run under it as they are\n"
                .to_owned(),
        );
    }
    line(format!("profile: {}", escape(&policy.profile)));
    line("layers, weakest first:".to_owned());
    for l in &ready.loaded.layers {
        line(format!("  {}", layer_words(l)));
    }
    out.push('\n');
    out.push_str(&plan::explain::text(&ready.plan));
    hosts(
        &mut out,
        "hosts allowed",
        ready.plan.network.egress.allowed(),
    );
    hosts(
        &mut out,
        "hosts denied, stronger than any allow",
        ready.plan.network.egress.denied(),
    );
    out.push_str("\nenvironment passed (values not shown):\n");
    for (name, _) in &ready.plan.env {
        let _ = writeln!(out, "  {}", escape_os(name));
    }
    out.push_str("\nenvironment added at the start:\n");
    for name in &backend.added {
        let _ = writeln!(out, "  {}", escape_os(name));
    }
    if backend.added.iter().any(|n| n == "GIT_SSH_COMMAND") {
        out.push_str(SSH_KEYS);
    }
    let (held, refused) = &backend.limits;
    if !held.is_empty() || refused.is_some() {
        out.push_str("\nlimits, and what holds them:\n");
    }
    for words in held.iter().chain(refused) {
        let _ = writeln!(out, "  {}", escape(words));
    }
    let _ = writeln!(out, "\nbackend: {}", backend.name);
    if let Some(says) = &backend.says {
        let _ = writeln!(out, "  {}", escape(says));
    }
    out.push_str("command line:\n  ");
    out.push_str(&backend.command_line);
    out
}

fn hosts(out: &mut String, title: &str, rules: &[Ruled<HostRule>]) {
    let _ = writeln!(out, "\n{title}:");
    if rules.is_empty() {
        out.push_str("  none\n");
    }
    for r in rules {
        let private = if r.value.allow_private {
            ", private addresses too"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "  {}  [{}{private}]",
            escape(&r.value.text),
            place(&r.origin)
        );
    }
}

fn layer_words(l: &LayerInfo) -> String {
    let mut out = layer_name(&l.layer);
    if let Some(file) = &l.file {
        let _ = write!(out, " {}", escape_os(file.as_os_str()));
    }
    if let Some(note) = &l.note {
        let _ = write!(out, ": {}", escape(note));
    }
    out
}

fn layer_name(layer: &Layer) -> String {
    match layer {
        Layer::BuiltIn(table) => format!("built-in {table}"),
        Layer::Profile(name) => format!("profile {}", escape(name)),
        Layer::User => "user".to_owned(),
        Layer::Project { trusted: true } => "project (trusted)".to_owned(),
        Layer::Project { trusted: false } => "project (not trusted)".to_owned(),
        Layer::Spec => "spec".to_owned(),
        Layer::Flag(name) => format!("option {name}"),
        Layer::Managed => "managed".to_owned(),
    }
}

fn object(ready: &Prepared, backend: &Backend) -> Value {
    let policy = &ready.loaded.policy;
    let rules = |list: &[Ruled<HostRule>]| -> Vec<Value> {
        list.iter()
            .map(|r| {
                json!({
                    "host": r.value.text,
                    "allow_private": r.value.allow_private,
                    "where": place(&r.origin),
                })
            })
            .collect()
    };
    let layers: Vec<Value> = ready
        .loaded
        .layers
        .iter()
        .map(|l| {
            json!({
                "layer": layer_name(&l.layer),
                "file": l.file.as_ref().map(|f| f.to_string_lossy()),
                "note": l.note,
            })
        })
        .collect();
    let environment: Vec<_> = ready
        .plan
        .env
        .iter()
        .map(|(n, _)| n.to_string_lossy())
        .collect();
    let mut out = plan::explain::value(&ready.plan);
    let more = json!({
        "nested": ready.host.nested,
        "profile": policy.profile,
        "layers": layers,
        "hosts": {
            "allowed": rules(ready.plan.network.egress.allowed()),
            "denied": rules(ready.plan.network.egress.denied()),
        },
        "environment": environment,
        "environment_added": backend.added.iter().map(|n| n.to_string_lossy()).collect::<Vec<_>>(),
        "limits": { "held": backend.limits.0, "refused": backend.limits.1 },
        "backend": {
            "name": backend.name,
            "says": backend.says,
            "command_line": backend.command_line.trim_end(),
        },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut out, more) {
        all.extend(more);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_with_their_file_and_note() {
        let l = LayerInfo {
            layer: Layer::Project { trusted: false },
            file: Some("/w/ccbox.toml".into()),
            note: Some("3 keys ignored: not trusted".into()),
        };
        assert_eq!(
            layer_words(&l),
            "project (not trusted) /w/ccbox.toml: 3 keys ignored: not trusted"
        );
        let flag = LayerInfo {
            layer: Layer::Flag("--rw"),
            file: None,
            note: None,
        };
        assert_eq!(layer_words(&flag), "option --rw");
    }
}
