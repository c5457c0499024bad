//! The text of one spec file: checked bytes, places in it, errors that point at them.

use std::ops::Range;
use std::path::PathBuf;

use super::SpecError;
use crate::policy::{Layer, Origin};

/// Enough for tens of thousands of entries; more is a mistake or an attack.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// One file, or what stands for one.
#[derive(Debug)]
pub(super) struct Source {
    /// What messages call it: the path as given, `<stdin>`, `<-p>`.
    pub(super) name: String,
    /// Absolute path, for layers that are files.
    pub(super) file: Option<PathBuf>,
    /// The kind of layer.
    pub(super) layer: Layer,
    text: String,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
}

impl Source {
    /// Takes the bytes of a file that is meant to be TOML.
    pub(super) fn new(
        name: String,
        file: Option<PathBuf>,
        layer: Layer,
        bytes: Vec<u8>,
    ) -> Result<Self, SpecError> {
        let whole = |message: String| SpecError::plain(format!("{}: {message}", shown(&name)));
        if bytes.len() > MAX_BYTES {
            return Err(whole(format!("the file is larger than {MAX_BYTES} bytes")));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let valid = String::from_utf8_lossy(e.as_bytes().get(..at).unwrap_or_default())
                    .into_owned();
                let source = Self::over(name, file, layer, valid);
                return Err(source.error(at..at, "the file is not UTF-8 text"));
            }
        };
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let source = Self::over(name, file, layer, text);
        source.refuse_other_languages()?;
        Ok(source)
    }

    fn over(name: String, file: Option<PathBuf>, layer: Layer, text: String) -> Self {
        let lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(i, _)| i + 1))
            .collect();
        Self {
            name,
            file,
            layer,
            text,
            lines,
        }
    }

    /// Files that users of other tools try first get an error that names the other tool.
    fn refuse_other_languages(&self) -> Result<(), SpecError> {
        let code = self
            .text
            .lines()
            .map(str::trim_start)
            .find(|l| !l.is_empty() && !l.starts_with(';'));
        if code.is_some_and(|l| l.starts_with("(version")) {
            return Err(self
                .error(0..0, "this is a sandbox-exec profile, not a ccbox spec")
                .with_hint("run it with `sandbox-exec -f`, or write the rules as TOML: `ccbox init` prints a start"));
        }
        if self.is_json() && self.layer != Layer::Spec {
            return Err(self
                .error(
                    0..0,
                    "JSON settings of another tool count only where they are given with `--spec`",
                )
                .with_hint("`ccbox init` writes a commented TOML spec"));
        }
        Ok(())
    }

    /// No TOML begins like this.
    pub(super) fn is_json(&self) -> bool {
        self.text.trim_start().starts_with('{')
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The source text of a value on one line, for listings.
    pub(super) fn slice(&self, span: &Range<usize>) -> String {
        let text = self.text.get(span.clone()).unwrap_or_default();
        shown(&text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// 1-based line, and column in characters.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.line_start(line);
        let before = self.text.get(start..offset.min(self.text.len()));
        (line, before.map_or(0, |t| t.chars().count()) + 1)
    }

    fn line_start(&self, line: usize) -> usize {
        self.lines.get(line - 1).copied().unwrap_or_default()
    }

    /// Where a rule was written.
    pub(super) fn origin(&self, offset: usize) -> Origin {
        Origin {
            layer: self.layer.clone(),
            file: self.file.clone(),
            line: u32::try_from(self.place(offset).0).ok(),
        }
    }

    /// An error at a place in this file.
    pub(super) fn error(&self, span: Range<usize>, message: &str) -> SpecError {
        let (line, column) = self.place(span.start);
        SpecError {
            message: format!("{}:{line}:{column}: {message}", shown(&self.name)),
            hint: None,
            snippet: Some(self.snippet(line, column, &span)),
        }
    }

    fn snippet(&self, line: usize, column: usize, span: &Range<usize>) -> String {
        const WIDTH: usize = 100;
        let start = self.line_start(line);
        let text = self
            .text
            .get(start..)
            .and_then(|t| t.lines().next())
            .unwrap_or_default();
        let marked = self
            .text
            .get(span.clone())
            .and_then(|t| t.lines().next())
            .map_or(0, |t| t.chars().count());
        // A long line is cut so that the caret stays in view.
        let skip = (column - 1).saturating_sub(WIDTH / 2);
        let visible: String = text
            .chars()
            .skip(skip)
            .take(WIDTH)
            .map(|c| if is_hostile(c) { ' ' } else { c })
            .collect();
        let caret = column - 1 - skip;
        let width = marked.clamp(1, WIDTH.saturating_sub(caret).max(1));
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        format!(
            "{number} | {visible}\n{gutter} | {}{}",
            " ".repeat(caret),
            "^".repeat(width)
        )
    }
}

/// Text of a spec in a message: control and bidi characters escaped, long text cut.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            out.push('…');
            break;
        }
        if is_hostile(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that move the cursor or reorder a line: controls, separators, bidi marks and overrides.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
