//! Classic BPF: instructions and an assembler with labels; pure, no system call is made here.
//!
//! Programs are assembled from their end to their start. Classic BPF only jumps forward, so every target already exists when
//! a jump to it is made, its distance is known, and equal tails are shared. A conditional jump holds its offsets in a byte; a
//! target further away gets an unconditional jump (32-bit offset) beside the conditional one.

use std::collections::HashMap;

// Opcodes of linux/bpf_common.h, as far as seccomp accepts them (seccomp_check_filter in kernel/seccomp.c).
const LD_W_ABS: u16 = 0x20;
const ALU_AND_K: u16 = 0x54;
const JA: u16 = 0x05;
const JEQ_K: u16 = 0x15;
const JGE_K: u16 = 0x35;
const JSET_K: u16 = 0x45;
const RET_K: u16 = 0x06;

/// BPF_MAXINSNS of linux/bpf_common.h.
const MAX_INSTRUCTIONS: usize = 4096;
/// The furthest a conditional jump reaches.
const NEAR: usize = u8::MAX as usize;

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

/// A complete program, ready for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    /// The instructions in the order in which they run.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}

/// The program does not fit into what the kernel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the filter has {0} instructions, the kernel takes {MAX_INSTRUCTIONS}")]
pub struct TooLong(usize);

/// An instruction that later (earlier running) ones can go to: its place counted from the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// Tests of the accumulator against a constant; unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// Equal.
    Equal,
    /// Greater or equal.
    AtLeast,
    /// Any of the bits set.
    AnyBit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    Return(u32),
    Load(u32, Label),
    And(u32, Label),
    Branch(Test, u32, Label, Label),
}

/// Builds a program backwards. Every method returns the label of the instruction it made, or of an equal one made before.
#[derive(Debug, Default)]
pub struct Assembler {
    reversed: Vec<Instruction>,
    made: HashMap<Node, Label>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the program with this value.
    pub fn ret(&mut self, value: u32) -> Label {
        self.share(Node::Return(value), |this| {
            this.push(RET_K, 0, 0, value);
        })
    }

    /// Loads the 32-bit word at this offset of the input, then goes on at `next`.
    pub fn load(&mut self, offset: u32, next: Label) -> Label {
        self.share(Node::Load(offset, next), |this| {
            this.fall_through_to(next);
            this.push(LD_W_ABS, 0, 0, offset);
        })
    }

    /// Masks the accumulator, then goes on at `next`.
    pub fn and(&mut self, mask: u32, next: Label) -> Label {
        self.share(Node::And(mask, next), |this| {
            this.fall_through_to(next);
            this.push(ALU_AND_K, 0, 0, mask);
        })
    }

    /// Goes to `yes` or `no`.
    pub fn branch(&mut self, test: Test, k: u32, yes: Label, no: Label) -> Label {
        if yes == no {
            return yes;
        }
        self.share(Node::Branch(test, k, yes, no), |this| {
            let code = match test {
                Test::Equal => JEQ_K,
                Test::AtLeast => JGE_K,
                Test::AnyBit => JSET_K,
            };
            // The second trampoline may push the branch one further from the first target.
            let no = this.near(no, 1);
            let yes = this.near(yes, 0);
            let (jump_true, jump_false) = (this.distance(yes), this.distance(no));
            // `near` has made both fit; saturation would only ever lengthen a jump past the end, which the kernel refuses.
            let byte = |far: usize| u8::try_from(far).unwrap_or(u8::MAX);
            this.push(code, byte(jump_true), byte(jump_false), k);
        })
    }

    /// The program that starts at `entry`.
    pub fn finish(mut self, entry: Label) -> Result<Program, TooLong> {
        self.fall_through_to(entry);
        self.reversed.reverse();
        if self.reversed.len() > MAX_INSTRUCTIONS {
            return Err(TooLong(self.reversed.len()));
        }
        Ok(Program {
            instructions: self.reversed,
        })
    }

    fn share(&mut self, node: Node, make: impl FnOnce(&mut Self)) -> Label {
        if let Some(label) = self.made.get(&node) {
            return *label;
        }
        make(self);
        let label = Label(self.reversed.len() - 1);
        self.made.insert(node, label);
        label
    }

    fn push(&mut self, code: u16, jump_true: u8, jump_false: u8, k: u32) {
        self.reversed.push(Instruction {
            code,
            jump_true,
            jump_false,
            k,
        });
    }

    /// How many instructions the next one would skip to reach the label.
    fn distance(&self, target: Label) -> usize {
        self.reversed.len() - target.0 - 1
    }

    fn fall_through_to(&mut self, next: Label) {
        let distance = self.distance(next);
        if distance > 0 {
            self.jump(distance);
        }
    }

    fn near(&mut self, target: Label, spare: usize) -> Label {
        let distance = self.distance(target);
        if distance + spare <= NEAR {
            return target;
        }
        self.jump(distance);
        Label(self.reversed.len() - 1)
    }

    fn jump(&mut self, distance: usize) {
        // Longer than u32 means longer than MAX_INSTRUCTIONS: `finish` refuses the program.
        self.push(JA, 0, 0, u32::try_from(distance).unwrap_or(u32::MAX));
    }
}

/// Runs a program on words of input as the kernel would; `None` where the kernel would have refused the program.
#[cfg(test)]
pub(crate) fn interpret(program: &Program, input: &dyn Fn(u32) -> Option<u32>) -> Option<u32> {
    trace(program, input).map(|(value, _)| value)
}

/// As [`interpret`], with the number of instructions it took.
#[cfg(test)]
pub(crate) fn trace(program: &Program, input: &dyn Fn(u32) -> Option<u32>) -> Option<(u32, usize)> {
    let (mut at, mut a, mut steps) = (0usize, 0u32, 0);
    loop {
        let i = program.instructions.get(at)?;
        at += 1;
        steps += 1;
        match i.code {
            LD_W_ABS => a = input(i.k)?,
            ALU_AND_K => a &= i.k,
            RET_K => return Some((i.k, steps)),
            JA => at += i.k as usize,
            JEQ_K | JGE_K | JSET_K => {
                let holds = match i.code {
                    JEQ_K => a == i.k,
                    JGE_K => a >= i.k,
                    _ => a & i.k != 0,
                };
                at += usize::from(if holds { i.jump_true } else { i.jump_false });
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &Program, word: u32) -> Option<u32> {
        interpret(program, &|offset| (offset == 0).then_some(word))
    }

    #[test]
    fn equal_tails_are_shared() {
        let mut asm = Assembler::new();
        let (yes, no) = (asm.ret(1), asm.ret(0));
        let five = asm.branch(Test::Equal, 5, yes, no);
        assert_eq!(asm.branch(Test::Equal, 5, yes, no), five);
        assert_eq!(asm.ret(1), yes);
        assert_eq!(asm.branch(Test::Equal, 9, yes, yes), yes);
        let entry = asm.load(0, five);
        let program = asm.finish(entry).unwrap();
        assert_eq!(program.instructions().len(), 4);
        assert_eq!(run(&program, 5), Some(1));
        assert_eq!(run(&program, 6), Some(0));
    }

    #[test]
    fn masks_and_bits() {
        let mut asm = Assembler::new();
        let (yes, no) = (asm.ret(1), asm.ret(0));
        let low = asm.branch(Test::AnyBit, 0x4, yes, no);
        let masked = asm.and(0xf, low);
        let entry = asm.load(0, masked);
        let program = asm.finish(entry).unwrap();
        assert_eq!(run(&program, 0x14), Some(1));
        assert_eq!(run(&program, 0x40), Some(0));
    }

    /// A chain of 2000 comparisons whose common target lies up to 4000 instructions away.
    #[test]
    fn far_targets_get_trampolines() {
        let mut asm = Assembler::new();
        let found = asm.ret(7);
        let mut next = asm.ret(0);
        for k in 0..1900 {
            next = asm.branch(Test::Equal, k * 3, found, next);
        }
        let entry = asm.load(0, next);
        let program = asm.finish(entry).unwrap();
        for word in 0..6000 {
            let expected = if word % 3 == 0 && word < 5700 { 7 } else { 0 };
            assert_eq!(run(&program, word), Some(expected), "{word}");
        }
    }

    /// Both targets far, and the first one exactly at the edge where the second trampoline moves it out of reach.
    #[test]
    fn both_targets_far_at_every_distance() {
        for gap in 240..270u32 {
            let mut asm = Assembler::new();
            let (no, yes) = (asm.ret(1_000_000), asm.ret(2_000_000));
            for value in 0..gap {
                asm.ret(value);
            }
            let test = asm.branch(Test::AtLeast, 10, yes, no);
            let entry = asm.load(0, test);
            let program = asm.finish(entry).unwrap();
            assert_eq!(run(&program, 10), Some(2_000_000), "{gap}");
            assert_eq!(run(&program, 9), Some(1_000_000), "{gap}");
        }
    }

    #[test]
    fn an_entry_that_is_not_last_is_jumped_to() {
        let mut asm = Assembler::new();
        let entry = asm.ret(3);
        asm.ret(4);
        let program = asm.finish(entry).unwrap();
        assert_eq!(run(&program, 0), Some(3));
    }

    #[test]
    fn too_long_is_an_error() {
        let mut asm = Assembler::new();
        let mut last = asm.ret(0);
        for value in 1..5000 {
            last = asm.ret(value);
        }
        assert_eq!(asm.finish(last), Err(TooLong(5000)));
    }
}
