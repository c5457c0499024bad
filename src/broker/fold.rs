//! The form in which denied names are compared (semantics 3).
//!
//! Denies must hold on every file system the name may land on: ext4 and tmpfs directories with case folding (the child
//! can make one itself), `/mnt/c` on WSL, HFS+ and APFS seen through a mount. So a name is folded more than any single
//! one of them does: two names that some file system takes for one have the same fold.
//!
//! * case: each character to lower, upper and lower case again, with the expansions of full folding (`ß` = `ss`, Kelvin sign = `k`)
//! * code points that Unicode calls default ignorable are dropped, as ext4 and HFS+ do
//! * bytes that are not UTF-8 stay as they are
//! * with [`NameRules::Windows`]: private code points U+F001–U+F07F, in which drvfs and Samba store characters that Windows
//!   forbids, become those characters; the name ends at the first `:` (a stream); dots and blanks at its end go
//!
//! Not done: canonical composition. Only names outside ASCII could differ by it, and no built-in rule has one.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// How the file system that holds the name reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRules {
    /// Bytes, or bytes with case folding.
    #[default]
    Unix,
    /// 9p, drvfs, NTFS, FAT: streams, dropped dots and blanks, 8.3 names.
    Windows,
}

/// Folds one path component. `fold(fold(x)) == fold(x)`.
#[must_use]
pub fn fold(name: &[u8], rules: NameRules) -> Cow<'_, [u8]> {
    let plain = |b: &u8| {
        b.is_ascii() && !b.is_ascii_uppercase() && (rules == NameRules::Unix || *b != b':')
    };
    let trimmed = rules == NameRules::Unix || !name.ends_with(b".") && !name.ends_with(b" ");
    if trimmed && name.iter().all(plain) {
        return Cow::Borrowed(name);
    }
    // Dropping a code point can join bytes on both sides of it into another one, so until nothing changes.
    let mut folded = once(name, rules);
    loop {
        let again = once(&folded, rules);
        if again == folded {
            return Cow::Owned(folded);
        }
        folded = again;
    }
}

fn once(name: &[u8], rules: NameRules) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut buf = [0; 4];
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars().filter(|c| !is_ignorable(*c)) {
            let c = match (rules, u32::from(c)) {
                (NameRules::Windows, 0xf001..=0xf07f) => {
                    char::from_u32(u32::from(c) - 0xf000).unwrap_or(c)
                }
                _ => c,
            };
            for c in c
                .to_lowercase()
                .flat_map(char::to_uppercase)
                .flat_map(char::to_lowercase)
            {
                out.extend_from_slice(c.encode_utf8(&mut buf).as_bytes());
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
    // `.` and `..` are themselves; a name of dots alone cannot be an entry there.
    if rules == NameRules::Windows && out != b"." && out != b".." {
        if let Some(stream) = out.iter().position(|&b| b == b':') {
            out.truncate(stream);
        }
        while out.ends_with(b".") || out.ends_with(b" ") {
            out.pop();
        }
    }
    out
}

/// True where `name` can stand for `want`, which is ASCII and lower case.
#[must_use]
pub fn is(name: &[u8], want: &str) -> bool {
    fold(name, NameRules::Unix).as_ref() == want.as_bytes()
}

/// True for a name that Windows may have given to an object with another, long name: `PROGRA~1`, `GITCON~1.TXT`. What it
/// stands for cannot be told from the name, so it is refused where such names exist.
#[must_use]
pub fn is_short_name(name: &[u8]) -> bool {
    let name = fold(name, NameRules::Windows);
    let mut parts = name.splitn(2, |&b| b == b'.');
    let base = parts.next().unwrap_or_default();
    let extension = parts.next().unwrap_or_default();
    let Some(tilde) = base.iter().rposition(|&b| b == b'~') else {
        return false;
    };
    let digits = base.get(tilde + 1..).unwrap_or_default();
    base.len() <= 8
        && extension.len() <= 3
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
}

/// Unicode's `Default_Ignorable_Code_Point` (DerivedCoreProperties), which covers the lists of ext4 and of HFS+.
fn is_ignorable(c: char) -> bool {
    matches!(u32::from(c),
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x202a..=0x202e
        | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfff8 | 0x1_bca0..=0x1_bca3
        | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff)
}
