//! A strict reader of git's configuration syntax.
//!
//! The gate may only compare what every git reads the same way. So this is a *subset* of the language in git-config(1):
//! what it accepts, it reads exactly as git does (a differential test runs the installed git); what git versions,
//! libgit2 or JGit read differently, or what git never writes, is an error. Refused although git takes it:
//!
//! * NUL and control characters other than TAB and LF; a CR that is not part of CRLF (whitespace to some, an end of
//!   line to others)
//! * a TAB between the words of an unquoted value (older gits turn it into a blank)
//! * `[section.subsection]` (deprecated, lower-cased), `[section ""]`, keys before the first section
//! * escapes other than `\"` and `\\` in a subsection, `\b` in a value
//! * a comment that ends in a backslash, and a backslash as the last byte of the file
//!
//! Limits: [`MAX_FILE`] bytes, and [`MAX_NAME`] bytes for a section or key. Values are bounded by the file.

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

/// Longest file that is read; git's own files are a few kilobytes.
pub const MAX_FILE: usize = 1 << 20;
/// Longest section, subsection or key name. A subsection holds a branch name, a path or a URL.
pub const MAX_NAME: usize = 4096;

/// One variable, in file order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Lower case, `[a-z0-9-]+`.
    pub section: String,
    /// As written, with `\"` and `\\` undone; `None` for `[section]`.
    pub subsection: Option<Vec<u8>>,
    /// Lower case, `[a-z][a-z0-9-]*`.
    pub key: String,
    /// `None` for a key without `=`, which git reads as true where it wants a boolean and as an error elsewhere.
    pub value: Option<Vec<u8>>,
}

impl Entry {
    /// `section.subsection.key`, the form git prints.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let mut name = self.section.clone().into_bytes();
        if let Some(sub) = &self.subsection {
            name.push(b'.');
            name.extend_from_slice(sub);
        }
        name.push(b'.');
        name.extend_from_slice(self.key.as_bytes());
        name
    }
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SyntaxError {
    /// 1-based.
    pub line: u32,
    /// What is unusual.
    pub reason: &'static str,
}

/// Reads a whole file.
///
/// # Errors
/// The first thing that is not plain, as listed in the module documentation.
pub fn parse(file: &[u8]) -> Result<Vec<Entry>, SyntaxError> {
    let mut reader = Reader::new(file)?;
    let mut entries = Vec::new();
    let mut head: Option<Head> = None;
    while let Some(byte) = reader.next()? {
        match byte {
            b'\n' | b' ' | b'\t' => {}
            b'#' | b';' => reader.comment()?,
            b'[' => head = Some(reader.head()?),
            b'a'..=b'z' | b'A'..=b'Z' => {
                let Some(Head {
                    section,
                    subsection,
                }) = &head
                else {
                    return Err(reader.error("a key before the first section"));
                };
                let (key, value) = reader.variable(byte)?;
                entries.push(Entry {
                    section: section.clone(),
                    subsection: subsection.clone(),
                    key,
                    value,
                });
            }
            _ => return Err(reader.error("a line that is neither a section, a key nor a comment")),
        }
    }
    Ok(entries)
}

/// The inside of `[…]`.
struct Head {
    section: String,
    subsection: Option<Vec<u8>>,
}

/// Bytes with CRLF read as LF, and an LF supplied where the last line has none, as git does.
struct Reader<'a> {
    rest: &'a [u8],
    line: u32,
    /// The last byte given was an LF (or nothing was given yet): the next line has another number.
    at_end_of_line: bool,
    /// The supplied LF was given.
    finished: bool,
}

impl<'a> Reader<'a> {
    fn new(file: &'a [u8]) -> Result<Self, SyntaxError> {
        if file.len() > MAX_FILE {
            return Err(SyntaxError {
                line: 0,
                reason: "the file is too long",
            });
        }
        Ok(Self {
            // git skips one UTF-8 byte order mark, at the start only.
            rest: file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file),
            line: 0,
            at_end_of_line: true,
            finished: false,
        })
    }

    fn error(&self, reason: &'static str) -> SyntaxError {
        SyntaxError {
            line: self.line,
            reason,
        }
    }

    /// The next byte; `None` after the last line. A file that is empty or ends in LF gets no further LF.
    fn next(&mut self) -> Result<Option<u8>, SyntaxError> {
        let Some((&first, tail)) = self.rest.split_first() else {
            if self.at_end_of_line || self.finished {
                return Ok(None);
            }
            self.finished = true;
            return Ok(Some(b'\n'));
        };
        if self.at_end_of_line {
            self.line = self.line.saturating_add(1);
            self.at_end_of_line = false;
        }
        let (byte, tail) = match (first, tail) {
            (b'\r', [b'\n', tail @ ..]) => (b'\n', tail),
            (b'\r', _) => return Err(self.error("a carriage return inside a line")),
            (b'\t' | b'\n', _) => (first, tail),
            (0..=0x1f | 0x7f, _) => return Err(self.error("a control character")),
            _ => (first, tail),
        };
        self.rest = tail;
        self.at_end_of_line = byte == b'\n';
        Ok(Some(byte))
    }

    /// The next byte inside a construct that the file cannot end in.
    fn more(&mut self) -> Result<u8, SyntaxError> {
        match self.next()? {
            Some(byte) => Ok(byte),
            None => Err(self.error("the file ends inside a line")),
        }
    }

    /// Skips to the end of the line.
    fn comment(&mut self) -> Result<(), SyntaxError> {
        let mut last = b'#';
        loop {
            match self.more()? {
                b'\n' if last == b'\\' => {
                    // git ends the comment here; a reader that joins lines first would not.
                    return Err(self.error("a comment that ends in a backslash"));
                }
                b'\n' => return Ok(()),
                byte => last = byte,
            }
        }
    }

    /// After `[`.
    fn head(&mut self) -> Result<Head, SyntaxError> {
        let mut section = String::new();
        let blank = loop {
            match self.more()? {
                b']' => break false,
                b' ' | b'\t' => break true,
                byte => self.push_name(&mut section, byte)?,
            }
        };
        if section.is_empty() {
            return Err(self.error("a section without a name"));
        }
        let subsection = if blank {
            Some(self.subsection()?)
        } else {
            None
        };
        Ok(Head {
            section,
            subsection,
        })
    }

    /// After the blank behind the section's name, up to `]`.
    fn subsection(&mut self) -> Result<Vec<u8>, SyntaxError> {
        loop {
            match self.more()? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return Err(self.error("a section name that is not `[name \"name\"]`")),
            }
        }
        let mut name = Vec::new();
        loop {
            match self.more()? {
                b'\n' => return Err(self.error("a section name over two lines")),
                b'"' => break,
                b'\\' => match self.more()? {
                    byte @ (b'"' | b'\\') => name.push(byte),
                    _ => return Err(self.error("an unusual escape in a section name")),
                },
                byte => name.push(byte),
            }
            if name.len() > MAX_NAME {
                return Err(self.error("a name that is too long"));
            }
        }
        if self.more()? != b']' {
            return Err(self.error("a section name that is not `[name \"name\"]`"));
        }
        if name.is_empty() {
            return Err(self.error("an empty subsection"));
        }
        Ok(name)
    }

    fn push_name(&self, name: &mut String, byte: u8) -> Result<(), SyntaxError> {
        if !byte.is_ascii_alphanumeric() && byte != b'-' {
            return Err(self.error("an unusual character in a name"));
        }
        if name.len() >= MAX_NAME {
            return Err(self.error("a name that is too long"));
        }
        name.push(char::from(byte.to_ascii_lowercase()));
        Ok(())
    }

    /// A key that starts with `first`, and its value, through the end of the line.
    fn variable(&mut self, first: u8) -> Result<(String, Option<Vec<u8>>), SyntaxError> {
        let mut key = String::new();
        self.push_name(&mut key, first)?;
        let mut byte = self.more()?;
        while !matches!(byte, b' ' | b'\t' | b'\n' | b'=') {
            self.push_name(&mut key, byte)?;
            byte = self.more()?;
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.more()?;
        }
        match byte {
            b'\n' => Ok((key, None)),
            b'=' => Ok((key, Some(self.value()?))),
            // `key # comment` is an error in git, too.
            _ => Err(self.error("a key that is not followed by `=`")),
        }
    }

    /// After `=`, through the end of the (continued) line.
    fn value(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut value = Vec::new();
        let mut quoted = false;
        // Blanks outside of quotes count only when something follows them.
        let mut pending = 0_usize;
        let mut pending_tab = false;
        loop {
            let byte = self.more()?;
            match byte {
                b'\n' if quoted => return Err(self.error("a quotation over two lines")),
                b'\n' => return Ok(value),
                b' ' | b'\t' if !quoted => {
                    if !value.is_empty() {
                        pending += 1;
                        pending_tab |= byte == b'\t';
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    self.comment()?;
                    return Ok(value);
                }
                _ => {}
            }
            if pending_tab {
                return Err(self.error("a tab inside a value"));
            }
            value.extend(std::iter::repeat_n(b' ', std::mem::take(&mut pending)));
            match byte {
                b'"' => quoted = !quoted,
                b'\\' => match self.more()? {
                    b'\n' if self.rest.is_empty() => {
                        return Err(self.error("a backslash at the end of the file"));
                    }
                    b'\n' => {}
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    byte @ (b'"' | b'\\') => value.push(byte),
                    _ => return Err(self.error("an unusual escape in a value")),
                },
                byte => value.push(byte),
            }
        }
    }
}
