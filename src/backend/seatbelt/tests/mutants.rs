//! Mistakes a generator could make, put into finished profiles: each must be noticed.

use super::evaluator::TAG;
use super::{differences, specs, text};

type Forms = Vec<String>;
type Mutant = (&'static str, fn(Forms) -> Forms);

fn forms(text: &str) -> Forms {
    let mut out: Forms = Vec::new();
    for line in text.lines() {
        if line.starts_with('(') {
            out.push(line.to_owned());
        } else if let (true, Some(last)) = (line.starts_with("  "), out.last_mut()) {
            last.push('\n');
            last.push_str(line);
        }
    }
    out
}

fn without(mut f: Forms, start: &str) -> Forms {
    f.retain(|r| !r.starts_with(start));
    f
}

/// Takes out what starts so and puts it before the first rule that starts with `before`, or at the end.
fn moved(f: Forms, start: &str, before: Option<&str>) -> Forms {
    let (taken, mut rest): (Forms, Forms) = f.into_iter().partition(|r| r.starts_with(start));
    let at = before.and_then(|b| rest.iter().position(|r| r.starts_with(b)));
    let at = at.unwrap_or(rest.len());
    rest.splice(at..at, taken);
    rest
}

fn changed(f: Forms, start: &str, from: &str, to: &str) -> Forms {
    let change = |r: String| {
        if r.starts_with(start) {
            r.replace(from, to)
        } else {
            r
        }
    };
    f.into_iter().map(change).collect()
}

fn and(mut f: Forms, rule: &str) -> Forms {
    f.push(rule.to_owned());
    f
}

/// The rules of one operation in the opposite order.
fn reversed(f: Forms, op: &str) -> Forms {
    let of = |r: &String| {
        r.starts_with(&format!("(allow {op}\n")) || r.starts_with(&format!("(deny {op}\n"))
    };
    let mut taken: Forms = f.iter().filter(|r| of(r)).cloned().collect();
    f.into_iter()
        .map(|r| if of(&r) { taken.pop().unwrap() } else { r })
        .collect()
}

const RESET: &str = "(deny file-write* (with";
const NEVER: &str = "(deny file-write* file-write-unlink";
const PINS: &str = "(deny file-write-unlink";

fn mutants() -> Vec<Mutant> {
    vec![
        ("no pins", |f| without(f, PINS)),
        ("pins before the writes", |f| moved(f, PINS, Some(RESET))),
        ("pins cover what lies below", |f| {
            changed(f, PINS, "literal", "subpath")
        }),
        ("reset after the grants", |f| moved(f, RESET, Some(NEVER))),
        ("no reset", |f| without(f, RESET)),
        ("never on one part only", |f| {
            changed(f, NEVER, super::super::NEVER, "file-write-data")
        }),
        ("never before the grants", |f| moved(f, NEVER, Some(RESET))),
        ("no never", |f| without(f, NEVER)),
        ("programs: refusals last", |f| {
            moved(f, "(deny process-exec*", None)
        }),
        ("programs: dangerous ones first", |f| {
            let at = f
                .iter()
                .rposition(|r| r.starts_with("(deny process-exec*"))
                .unwrap();
            let mut f = f;
            let rule = f.remove(at);
            f.insert(1, rule);
            f
        }),
        ("programs: no refusals", |f| {
            without(f, "(deny process-exec*")
        }),
        ("a dot is any character", |f| changed(f, "(", "[.]", ".")),
        ("nothing below a name", |f| changed(f, "(", "(/.*)?$", "$")),
        ("names start anywhere", |f| {
            changed(f, "(", "(regex \"/", "(regex \"")
        }),
        ("case is not folded", |f| {
            changed(f, "(", "[eE][nN][vV]", "env")
        }),
        ("one spelling only", |f| {
            changed(
                f,
                "(deny file-read*",
                "(subpath \"/private/tmp\")",
                "(subpath \"/t\")",
            )
        }),
        ("all of loopback", |f| {
            changed(f, "(", "localhost:51234", "localhost:*")
        }),
        ("grants in the opposite order", |f| {
            reversed(f, "file-write*")
        }),
        ("reads in the opposite order", |f| reversed(f, "file-read*")),
        ("hidden: the directory only", |f| {
            changed(f, "(deny file-read*", "subpath", "literal")
        }),
        ("no rule for links", |f| {
            without(
                changed(f, NEVER, " file-link file-clone", ""),
                "(deny file-link",
            )
        }),
        ("a later grant", |f| {
            and(f, "(allow file-write* (subpath \"/Users/dev/w/proj\"))")
        }),
        ("binding left open", |f| {
            and(f, "(allow network-bind (local ip \"*:*\"))")
        }),
        ("metadata opened again", |f| {
            and(f, "(allow file-read-metadata (subpath \"/Users\"))")
        }),
        ("a quote is not escaped", |f| changed(f, "(", "\\\"", "\"")),
        ("a refusal without a tag", |f| {
            changed(f, PINS, &format!("\n  (with message \"{TAG}\")"), "")
        }),
        ("a refusal without filters", |f| {
            and(f, &format!("(deny file-read* (with message \"{TAG}\"))"))
        }),
        ("new directories may be made", |f| {
            without(f, "(deny file-write-create")
        }),
        ("no rule for the network", |f| without(f, "(deny network*")),
        ("names of the profile forgotten", |f| {
            let soft = "(deny file-write*\n  (regex";
            without(f, soft)
        }),
        ("exceptions hold everywhere", |f| {
            let mut f = f;
            for r in &mut f {
                if let Some(at) = r.find("(require-any").filter(|_| r.starts_with("(allow")) {
                    *r = format!(
                        "(allow file-write*\n  {}",
                        r.split_at(at).1.replacen(")))", "))", 1)
                    );
                }
            }
            f
        }),
        ("signals to nobody", |f| without(f, "(allow signal")),
        ("the resolver is always open", |f| {
            and(
                f,
                "(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))",
            )
        }),
    ]
}

#[test]
fn every_mutant_is_caught() {
    let specs = specs(77, 40);
    let mut survivors = Vec::new();
    for (name, mutate) in mutants() {
        let caught = specs.iter().enumerate().any(|(n, spec)| {
            let right = forms(&text(spec).unwrap());
            let wrong = mutate(right.clone());
            wrong != right
                && differences(spec, &wrong.join("\n"), n as u64 + 5, 100)
                    .map_or(true, |d| !d.is_empty())
        });
        if !caught {
            survivors.push(name);
        }
    }
    assert!(survivors.is_empty(), "{survivors:?}");
}
