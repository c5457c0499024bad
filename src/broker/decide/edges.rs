//! Which names may be named by one of many patterns, told from their first and last byte.

/// How a name begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Nothing is known.
    Any,
    /// With this byte.
    First(u8),
    /// With this byte.
    Last(u8),
}

/// The edges of several patterns: which names may be named by one of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Edges {
    any: bool,
    first: Bytes,
    last: Bytes,
}

/// A set of bytes.
#[derive(Debug, Clone, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: Option<&u8>) -> bool {
        let word = byte.and_then(|byte| Some((self.0.get(usize::from(byte >> 6))?, byte & 63)));
        word.is_some_and(|(word, bit)| word >> bit & 1 == 1)
    }
}

impl Edges {
    pub(super) fn add(&mut self, edge: Edge) {
        match edge {
            Edge::Any => self.any = true,
            Edge::First(byte) => self.first.add(byte),
            Edge::Last(byte) => self.last.add(byte),
        }
    }

    pub(super) fn fit(&self, name: &[u8]) -> bool {
        self.any || self.first.has(name.first()) || self.last.has(name.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_by_their_first_or_last_byte() {
        let mut edges = Edges::default();
        assert!(!edges.fit(b"a") && !edges.fit(b""));
        edges.add(Edge::First(b'.'));
        edges.add(Edge::Last(0xff));
        for (name, fits) in [
            (&b".env"[..], true),
            (b"env.", false),
            (b"x\xff", true),
            (b"\xffx", false),
            (b"", false),
        ] {
            assert_eq!(edges.fit(name), fits, "{name:?}");
        }
        edges.add(Edge::Any);
        assert!(edges.fit(b"env."));
    }
}
