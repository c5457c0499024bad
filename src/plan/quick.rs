//! Hashing of paths, many thousand times a plan. The keys are this machine's own paths and a few hundred at most, so nothing here needs
//! to withstand keys chosen to collide.

use std::hash::{BuildHasherDefault, Hasher};

/// For `HashMap`.
pub(super) type Quick = BuildHasherDefault<Words>;

/// Eight bytes a step, multiplied into the sum (the scheme of rustc's own tables).
#[derive(Debug, Clone, Default)]
pub(super) struct Words(u64);

impl Words {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let mut last = 0;
        for byte in chunks.remainder() {
            last = last << 8 | u64::from(*byte);
        }
        self.add(last);
    }

    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes its slot from the low bits, which a product mixes least.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn paths_spread() {
        let hash = |n: usize| Quick::default().hash_one(format!("/home/me/.config/{n}/{}", n * 7));
        let low: HashSet<u64> = (0..1024).map(|n| hash(n) & 0x3ff).collect();
        assert!(low.len() > 512, "{}", low.len());
    }
}
