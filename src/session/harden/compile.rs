//! The filter table as a classic BPF program.
//!
//! Architecture first, then a binary search over runs of equal action, then, for the few calls that need it, their argument tests.
//! Linear chains cost about 2 µs an instruction at installation, because the kernel evaluates the filter once for every call
//! number (linux-engine.md §5); this shape is evaluated in a handful of instructions.

use std::collections::BTreeMap;

use super::FilterOptions;
use super::rule::{Arch, ArgTest, Clause, Errno, Op, Rule, Verdict};
use super::table::{NEWEST_KNOWN, ROWS, SKIPPED, WITH_UNIX, WITHOUT_UNIX};
use crate::sys::bpf::{Assembler, Label, Program, Test, TooLong};

// `struct seccomp_data` of linux/seccomp.h: nr, arch, instruction pointer, six arguments of 64 bits, little endian.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ERRNO: u32 = 0x0005_0000;

/// The filter for one architecture.
pub(super) fn program(options: FilterOptions, arch: Arch) -> Result<Program, TooLong> {
    let mut asm = Assembler::new();
    let unknown = verdict(&mut asm, Verdict::Refuse(Errno::NoSys));
    let runs = runs(&mut asm, options, arch);
    let search = search(&mut asm, &runs);
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

/// Every call number there can be, as runs in ascending order; equal actions are one label, so equal neighbours are one run.
fn runs(asm: &mut Assembler, options: FilterOptions, arch: Arch) -> Vec<Run> {
    let allow = verdict(asm, Verdict::Allow);
    let unknown = verdict(asm, Verdict::Refuse(Errno::NoSys));
    let sockets = if options.unix_sockets_allowed() {
        WITH_UNIX
    } else {
        WITHOUT_UNIX
    };
    let actions: BTreeMap<u32, Label> = ROWS
        .iter()
        .chain(sockets)
        .filter_map(|row| Some((row.number(arch)?, rule(asm, row.rule))))
        .collect();

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
    for (&number, &action) in &actions {
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

fn rule(asm: &mut Assembler, rule: Rule) -> Label {
    match rule {
        Rule::Always(then) => verdict(asm, then),
        Rule::Cases(groups, otherwise) => {
            let mut next = verdict(asm, otherwise);
            for clause in groups.iter().flat_map(|group| group.iter()).rev() {
                next = self::clause(asm, clause, next);
            }
            next
        }
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
    let decide = match test.op {
        Op::Masked(u32::MAX, wanted) => asm.branch(Test::Equal, wanted, yes, no),
        Op::Masked(mask, wanted) => {
            let equal = asm.branch(Test::Equal, wanted, yes, no);
            asm.and(mask, equal)
        }
        Op::AnyBit(bits) => asm.branch(Test::AnyBit, bits, yes, no),
    };
    asm.load(ARGUMENTS + 8 * u32::from(test.arg), decide)
}

fn verdict(asm: &mut Assembler, verdict: Verdict) -> Label {
    asm.ret(match verdict {
        Verdict::Allow => RET_ALLOW,
        Verdict::Refuse(errno) => RET_ERRNO | errno as u32,
    })
}
