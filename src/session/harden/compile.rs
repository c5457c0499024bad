//! The filter table as a classic BPF program.
//!
//! Architecture first, then a binary search over runs of equal action, then, for the few calls that need it, their argument tests.
//! With the broker the call made most, openat(2), is asked for before the search, and calls of [`crate::broker::calls`] trap: where
//! the table refuses something by its arguments, that is asked first.
//!
//! Linear chains cost about 2 µs an instruction at installation, because the kernel evaluates the filter once for every call
//! number (linux-engine.md §5); this shape is evaluated in a handful of instructions.

use std::collections::BTreeMap;

use super::FilterOptions;
use super::rule::{Arch, Arg, ArgTest, Clause, Errno, Op, Rule, Verdict};
use super::table::{
    ALONE, BROKER, NEWEST_KNOWN, PLAIN, ROWS, SENDS, SKIPPED, TCP_ALONE, TCP_AND_UNIX, UNIX_ALONE,
    UNIX_BY_PATH, WITH_UNIX, WITHOUT_NETWORK, WITHOUT_UNIX,
};
use crate::broker::calls::{LISTENS, METADATA, READS, SOCKETS, TRAPS, Trap, When};
use crate::sys::bpf::{Assembler, Label, Program, Test, TooLong};

// `struct seccomp_data` of linux/seccomp.h: nr, arch, instruction pointer, six arguments of 64 bits, little endian.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

/// The filter for one architecture.
pub(super) fn program(options: FilterOptions, arch: Arch) -> Result<Program, TooLong> {
    let mut asm = Assembler::new();
    let unknown = verdict(&mut asm, Verdict::Refuse(Errno::NoSys));
    let mut actions = actions(&mut asm, options, arch);
    let first = first(options, arch).and_then(|number| Some((number, actions.remove(&number)?)));
    let runs = runs(&mut asm, &actions);
    let mut search = search(&mut asm, &runs);
    if let Some((number, action)) = first {
        search = asm.branch(Test::Equal, number, action, search);
    }
    let number = asm.load(NUMBER, search);
    let native = asm.branch(Test::Equal, arch.audit(), number, unknown);
    let entry = asm.load(ARCH, native);
    asm.finish(entry)
}

/// Numbers with one action.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u32,
    last: u32,
    action: Label,
}

/// The call that is asked for before the search. What the search says of its number then does not matter.
fn first(options: FilterOptions, arch: Arch) -> Option<u32> {
    TRAPS
        .first()
        .filter(|_| options.broker)
        .and_then(|trap| trapped_number(trap, arch))
}

fn trapped_number(trap: &Trap, arch: Arch) -> Option<u32> {
    match arch {
        Arch::X86_64 => trap.x86_64,
        Arch::Aarch64 => trap.aarch64,
    }
}

/// What is done with each number that is not simply allowed.
fn actions(asm: &mut Assembler, options: FilterOptions, arch: Arch) -> BTreeMap<u32, Label> {
    let by_path = options.broker && options.sockets;
    let sockets = if options.by_proxies {
        if by_path { TCP_AND_UNIX } else { TCP_ALONE }
    } else if options.no_network {
        if by_path { UNIX_ALONE } else { WITHOUT_NETWORK }
    } else if by_path {
        UNIX_BY_PATH
    } else if options.unix_sockets_allowed() {
        WITH_UNIX
    } else {
        WITHOUT_UNIX
    };
    let extra = match options {
        FilterOptions { alone: true, .. } => ALONE,
        FilterOptions { broker: true, .. } => BROKER,
        FilterOptions { .. } => PLAIN,
    };
    // With the host's network a connection goes where it would go without a sandbox, or is made by the broker.
    let own_network = !options.open_network && !options.no_network && !options.by_proxies;
    let listens = options.broker && options.by_proxies;
    let traps = TRAPS
        .iter()
        .filter(|trap| options.broker && (own_network || !trap.is_network()))
        .chain(
            (by_path || listens)
                .then_some(SOCKETS)
                .into_iter()
                .flatten(),
        )
        .chain(listens.then_some(LISTENS).into_iter().flatten());
    let reads = if options.broker && options.reads {
        READS
    } else {
        &[]
    };
    let metadata = if options.broker && options.alone {
        METADATA
    } else {
        &[]
    };
    let mut actions = BTreeMap::new();
    for trap in traps.chain(reads).chain(metadata) {
        if let Some(number) = trapped_number(trap, arch) {
            let allow = verdict(asm, Verdict::Allow);
            actions.insert(number, trapped(asm, trap, allow));
        }
    }
    let sends = if options.by_proxies { SENDS } else { &[] };
    for row in extra.iter().chain(ROWS).chain(sockets).chain(sends) {
        if let Some(number) = row.number(arch) {
            let allowed = actions.get(&number).copied();
            actions.insert(number, rule(asm, row.rule, allowed));
        }
    }
    actions
}

/// Every call number there can be, as runs in ascending order; equal actions are one label, so equal neighbours are one run.
fn runs(asm: &mut Assembler, actions: &BTreeMap<u32, Label>) -> Vec<Run> {
    let allow = verdict(asm, Verdict::Allow);
    let unknown = verdict(asm, Verdict::Refuse(Errno::NoSys));
    let mut runs: Vec<Run> = Vec::new();
    let mut next = 0;
    let mut until = |last: u32, action: Label| {
        match runs.last_mut() {
            Some(run) if run.action == action => run.last = last,
            _ => runs.push(Run {
                first: next,
                last,
                action,
            }),
        }
        next = last.wrapping_add(1);
        next
    };
    let mut free = 0;
    for (&number, &action) in actions {
        if number > free {
            until(number - 1, allow);
        }
        free = until(number, action);
    }
    until(NEWEST_KNOWN, allow);
    // Covers the x32 bit (0x4000_0000) and every negative number but the one of a skipped call.
    until(SKIPPED - 1, unknown);
    until(SKIPPED, allow);
    runs
}

fn search(asm: &mut Assembler, runs: &[Run]) -> Label {
    if let Some(label) = exceptions(asm, runs) {
        return label;
    }
    let (left, right) = runs.split_at(runs.len() / 2);
    let boundary = right.first().map_or(0, |run| run.first);
    let above = search(asm, right);
    let below = search(asm, left);
    asm.branch(Test::AtLeast, boundary, above, below)
}

/// A few runs that are one action but for at most two single numbers: two comparisons instead of up to four.
fn exceptions(asm: &mut Assembler, runs: &[Run]) -> Option<Label> {
    let mut bases = runs.iter().take(2).map(|run| run.action);
    let base = bases.find(|&base| {
        let mut others = runs.iter().filter(|run| run.action != base);
        others.clone().count() <= 2 && others.all(|run| run.first == run.last)
    })?;
    let mut next = base;
    for run in runs.iter().filter(|run| run.action != base) {
        next = asm.branch(Test::Equal, run.first, run.action, next);
    }
    Some(next)
}

/// `allowed` is where a call goes that the rule lets through, if not to the end.
fn rule(asm: &mut Assembler, rule: Rule, allowed: Option<Label>) -> Label {
    let passed = |asm: &mut Assembler, otherwise| match (otherwise, allowed) {
        (Verdict::Allow, Some(label)) => label,
        _ => verdict(asm, otherwise),
    };
    match rule {
        Rule::Always(then) => verdict(asm, then),
        Rule::Cases(groups, otherwise) => {
            let mut next = passed(asm, otherwise);
            for clause in groups.iter().flat_map(|group| group.iter()).rev() {
                next = self::clause(asm, clause, next);
            }
            next
        }
        Rule::OneOf(arg, values, then, otherwise) => {
            let then = verdict(asm, then);
            let mut next = passed(asm, otherwise);
            for &value in values.iter().rev() {
                next = asm.branch(Test::Equal, value, then, next);
            }
            load(asm, arg, next)
        }
    }
}

fn trapped(asm: &mut Assembler, trap: &Trap, otherwise: Label) -> Label {
    let notify = verdict(asm, Verdict::Notify);
    if trap.when.is_empty() {
        return notify;
    }
    let tests: Vec<ArgTest> = trap.when.iter().map(test).collect();
    let mut next = otherwise;
    for (n, test) in tests.iter().enumerate().rev() {
        next = compare(asm, *test, notify, next);
        // An argument that the test before has loaded and not masked is still there.
        let before = n.checked_sub(1).and_then(|n| tests.get(n));
        if before.is_none_or(|before| before.arg != test.arg || masks(*before)) {
            next = load(asm, Arg(test.arg), next);
        }
    }
    next
}

fn test(when: &When) -> ArgTest {
    match *when {
        When::AnyBit { arg, bits } => Arg(arg).has_any(bits),
        When::Masked { arg, mask, value } => Arg(arg).masked(mask, value),
    }
}

fn clause(asm: &mut Assembler, clause: &Clause, otherwise: Label) -> Label {
    let mut next = verdict(asm, clause.then);
    for test in clause.when.iter().rev() {
        next = argument(asm, *test, next, otherwise);
    }
    next
}

fn argument(asm: &mut Assembler, test: ArgTest, yes: Label, no: Label) -> Label {
    let decide = compare(asm, test, yes, no);
    load(asm, Arg(test.arg), decide)
}

fn load(asm: &mut Assembler, arg: Arg, next: Label) -> Label {
    asm.load(ARGUMENTS + 8 * u32::from(arg.0), next)
}

/// Tests the loaded argument.
fn compare(asm: &mut Assembler, test: ArgTest, yes: Label, no: Label) -> Label {
    match test.op {
        Op::Masked(u32::MAX, wanted) => asm.branch(Test::Equal, wanted, yes, no),
        Op::Masked(mask, wanted) => {
            let equal = asm.branch(Test::Equal, wanted, yes, no);
            asm.and(mask, equal)
        }
        Op::AnyBit(bits) => asm.branch(Test::AnyBit, bits, yes, no),
    }
}

/// Whether [`compare`] changes what is loaded.
fn masks(test: ArgTest) -> bool {
    matches!(test.op, Op::Masked(mask, _) if mask != u32::MAX)
}

fn verdict(asm: &mut Assembler, verdict: Verdict) -> Label {
    asm.ret(match verdict {
        Verdict::Allow => RET_ALLOW,
        Verdict::Refuse(errno) => RET_ERRNO | errno as u32,
        Verdict::Notify => RET_USER_NOTIF,
    })
}
