//! The probe as text that can be pasted into a bug report.

use std::fmt::Write as _;

use super::Probe;

/// Plain lines, no colour.
#[must_use]
pub fn render(p: &Probe) -> String {
    let mut out = String::new();
    let mut row = |key: &str, value: &str| {
        let _ = writeln!(out, "{key:<16} {value}");
    };
    row("ccbox", p.version);
    let platform = format!("{:?}", p.platform).to_ascii_lowercase();
    row("platform", &format!("{platform}, kernel {}", p.kernel));
    if let Some(d) = &p.distribution {
        row("distribution", d);
    }
    if let Some(c) = &p.container {
        row("container", c);
    }
    if p.nested {
        row(
            "nested",
            "inside a ccbox sandbox; the answers are those of the sandbox",
        );
    }
    out.push_str("\nbackends\n");
    for b in &p.backends {
        let state = if b.available {
            "available"
        } else {
            "unavailable"
        };
        let words = b.note.as_deref().or(b.reason.as_deref()).unwrap_or("");
        let install = if b.requires_install {
            " (requires install)"
        } else {
            ""
        };
        let _ = writeln!(out, "  {:<16} {state}{install}: {words}", b.name);
        if let Some(h) = &b.hint {
            let _ = writeln!(out, "  {:<16} hint: {h}", "");
        }
    }
    if !p.engines.is_empty() {
        out.push_str("\nengines\n");
    }
    for e in &p.engines {
        let (state, words) = match &e.reason {
            None => ("available", e.note),
            Some(reason) => ("unavailable", reason.as_str()),
        };
        let _ = writeln!(out, "  {:<16} {state}: {words}", e.name);
        if let Some(h) = &e.hint {
            let _ = writeln!(out, "  {:<16} hint: {h}", "");
        }
    }
    if !p.checks.is_empty() {
        out.push_str("\nmechanisms\n");
    }
    for c in &p.checks {
        let state = match (c.ok, c.required) {
            (true, _) => "ok",
            (false, true) => "missing",
            (false, false) => "missing (optional)",
        };
        let _ = writeln!(out, "  {:<16} {state}: {}", c.name, c.detail);
        if let Some(f) = &c.fix {
            let _ = writeln!(out, "  {:<16} fix: {f}", "");
        }
    }
    out.push_str("\nnot enforced yet\n");
    for g in &p.gaps {
        let _ = writeln!(out, "  {g}");
    }
    out
}
