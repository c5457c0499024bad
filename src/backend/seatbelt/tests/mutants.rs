//! Mistakes a generator could make, put into finished profiles: each must be noticed.

use super::evaluator::TAG;
use super::model::Access;
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

const RESET: &str = "(deny file-write* file-link file-mknod (with";
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
            changed(f, "(", "[gG][iI][tT]", "git")
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
            reversed(f, "file-write* file-link file-mknod")
        }),
        ("reads in the opposite order", |f| reversed(f, "file-read*")),
        ("hidden: the directory only", |f| {
            changed(f, "(deny file-read*", "subpath", "literal")
        }),
        ("no rule for links", |f| changed(f, "(", " file-link", "")),
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
            without(
                changed(
                    f,
                    PINS,
                    "file-write-unlink file-write-create",
                    "file-write-unlink",
                ),
                "(deny file-write-create",
            )
        }),
        ("no rule for the network", |f| without(f, "(deny network*")),
        ("names of the profile forgotten", |f| {
            let soft = "(deny file-write* file-link file-mknod\n  (regex";
            without(f, soft)
        }),
        ("exceptions hold everywhere", |f| {
            let mut f = f;
            for r in &mut f {
                let lifts = r.rfind("(require-any").filter(|_| r.starts_with("(allow"));
                if let Some(at) = lifts {
                    *r = format!(
                        "(allow file-write* {}",
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

/// A mistake made up from a profile.
type Change = (String, Box<dyn Fn(Forms) -> Forms>);

/// Every kind of rule left out, and every operation of it.
fn left_out(all: &[Forms]) -> Vec<Change> {
    let head = |rule: &str| -> String {
        let end = rule.find(['\n', ' ']).unwrap_or(0);
        let rest = &rule[end..];
        let end = end + rest.find('\n').or(rest.find(" (")).unwrap_or(rest.len());
        rule[..end].to_owned()
    };
    let mut heads: Vec<String> = all.iter().flatten().map(|r| head(r)).collect();
    heads.sort();
    heads.dedup();
    let mut out: Vec<Change> = Vec::new();
    for rule in heads
        .into_iter()
        .filter(|h| h.starts_with("(allow ") || h.starts_with("(deny "))
    {
        let starts = move |r: &str, h: &str| head(r) == h;
        let h = rule.clone();
        out.push((
            format!("without {rule}"),
            Box::new(move |mut f| {
                f.retain(|r| !starts(r, &h));
                f
            }),
        ));
        let mut words = rule.split(' ');
        let effect = words.next().unwrap_or_default().to_owned();
        let ops: Vec<String> = words.map(str::to_owned).collect();
        for op in ops.iter().filter(|_| ops.len() > 1) {
            let rest: Vec<&str> = ops
                .iter()
                .filter(|o| *o != op)
                .map(String::as_str)
                .collect();
            let (old, new) = (rule.clone(), format!("{effect} {}", rest.join(" ")));
            out.push((
                format!("{rule} without {op}"),
                Box::new(move |f| {
                    let one = |r: String| {
                        if starts(&r, &old) {
                            r.replacen(&old, &new, 1)
                        } else {
                            r
                        }
                    };
                    f.into_iter().map(one).collect()
                }),
            ));
        }
    }
    out
}

/// What a mutant says, where it is one, against what is wanted.
fn is_caught(spec: &super::Spec, right: &Forms, wrong: &Forms, seed: u64, probes: usize) -> bool {
    right != wrong
        && differences(spec, &wrong.join("\n"), seed, probes).map_or(true, |d| !d.is_empty())
}

/// What the wildcard says already: named once more, because tools have seen a permission for `file-write*` pass by it.
const REPEATED: [&str; 1] = [
    "(deny file-write* file-write-unlink file-link file-clone file-mknod without file-write-unlink",
];

#[test]
fn every_rule_and_every_operation_counts() {
    let specs = specs(77, 24);
    let right: Vec<Forms> = specs.iter().map(|s| forms(&text(s).unwrap())).collect();
    let mut survivors = Vec::new();
    for (name, mutate) in left_out(&right) {
        let mut all = specs.iter().zip(&right).enumerate();
        if !all.any(|(n, (spec, r))| is_caught(spec, r, &mutate(r.clone()), n as u64, 60)) {
            survivors.push(name);
        }
    }
    assert_eq!(survivors, REPEATED);
}

/// Services, programs, devices, names: each filter of a profile that is not about a path of the spec.
#[test]
fn every_filter_counts() {
    let mut spec = specs(78, 1).remove(0);
    spec.grants = vec![("/Users/dev/w/proj".to_owned(), Access::Write)];
    (spec.host_view, spec.read_only, spec.soft) = (true, false, true);
    (spec.dns, spec.events, spec.keychain) = (false, false, false);
    (spec.patterns, spec.hides, spec.exec) = (Vec::new(), Vec::new(), None);
    let right = forms(&text(&spec).unwrap());
    let mine = |l: &&str| {
        let of_spec = [
            "(with message",
            "/Users",
            "folders",
            "/private\")",
            "/private/var\")",
        ];
        let said = of_spec.iter().any(|t| l.contains(t));
        !said && l.starts_with("  ")
    };
    let lines = right.iter().flat_map(|r| r.lines().skip(1).filter(mine));
    let bare = |l: &str| l.trim_end_matches(')').to_owned();
    let lines: std::collections::BTreeSet<String> = lines.map(bare).collect();
    assert!(lines.len() > 100, "{}", lines.len());
    let mut survivors = Vec::new();
    for line in &lines {
        let drop = |r: &String| {
            let kept = r.lines().filter(|l| bare(l) != *line);
            let mut kept = kept.collect::<Vec<_>>().join("\n");
            let count = |c| kept.matches(c).count();
            let open = count('(').saturating_sub(count(')'));
            kept.extend(std::iter::repeat_n(')', open));
            kept
        };
        let wrong: Forms = right.iter().map(drop).collect();
        if !is_caught(&spec, &right, &wrong, 1, 20) {
            survivors.push(line);
        }
    }
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
fn every_mutant_is_caught() {
    let specs = specs(77, 40);
    let right: Vec<Forms> = specs.iter().map(|s| forms(&text(s).unwrap())).collect();
    let mut survivors = Vec::new();
    for (name, mutate) in mutants() {
        let mut all = specs.iter().zip(&right).enumerate();
        if !all.any(|(n, (spec, r))| is_caught(spec, r, &mutate(r.clone()), n as u64 + 5, 100)) {
            survivors.push(name);
        }
    }
    assert!(survivors.is_empty(), "{survivors:?}");
}
