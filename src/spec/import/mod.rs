//! Settings of other tools, given where a spec can be: Claude Code's `settings.json` and srt's settings file (R29).
//!
//! The JSON is turned into the tree of the TOML that says the same, each value keeping its place, and then read as any
//! spec is: so a setting means what the hand-written line means, and an error names file, line and column. What has no
//! such line is refused or named in a notice, whichever is the tighter; it is never dropped in silence.

mod claude;
mod credentials;
mod network;
mod out;
mod paths;
mod rules;
mod sandbox;

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::SpecError;
use super::json::{self, Json, Member, Node};
use super::layer::Place;
use super::source::{Source, shown};
use super::suggest::nearest;
use out::Out;

/// What a settings file says.
#[derive(Debug)]
pub(super) struct Imported<'a> {
    /// The spec it amounts to.
    pub(super) table: DeTable<'a>,
    /// Claude Code lets commands write where they start; the place that says so.
    pub(super) cwd_writable: Option<Range<usize>>,
    /// `filesystem.view` stands in no line: another spec's own word counts.
    pub(super) view_is_implied: bool,
    /// What the user must be told.
    pub(super) notices: Vec<String>,
    /// What it is, for `explain`.
    pub(super) note: String,
}

/// A string and its place.
type Placed<'n> = (&'n str, &'n Range<usize>);

/// Whose settings they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Claude,
    Srt,
}

/// Reads a settings file.
pub(super) fn document<'a>(
    source: &'a Source,
    place: Place<'a>,
) -> Result<Imported<'a>, SpecError> {
    let root = json::parse(source.text()).map_err(|problem| {
        let error = source.error(problem.span, &problem.message);
        match problem.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    let Json::Object(members) = &root.value else {
        return Err(source.error(
            root.span,
            &format!("settings are an object, not {}", root.value.kind()),
        ));
    };
    let dialect = dialect(source, members)?;
    let mut import = Import::new(source, place, dialect);
    let cwd_writable = match dialect {
        Dialect::Claude => {
            claude::settings(&mut import, members)?;
            Some(0..0)
        }
        Dialect::Srt => {
            sandbox::srt(&mut import, members)?;
            None
        }
    };
    let view_is_implied = !import.bound;
    // Both tools show everything that is not denied, and reach the hosts that are named and no others.
    import.out.text(
        "filesystem",
        "view",
        if import.bound { "bound" } else { "host" },
        0..0,
    );
    import.out.bool("network", "baseline", false, 0..0);
    Ok(Imported {
        note: import.note(),
        table: import.out.finish(),
        cwd_writable,
        view_is_implied,
        notices: import.notices,
    })
}

/// Which tool a file is for: its own top-level keys say so.
fn dialect(source: &Source, members: &[Member]) -> Result<Dialect, SpecError> {
    let has = |keys: [&str; 2]| members.iter().find(|m| keys.contains(&m.key.as_str()));
    match (has(["sandbox", "permissions"]), has(["network", "filesystem"])) {
        (Some(_), None) => Ok(Dialect::Claude),
        (None, Some(_)) => Ok(Dialect::Srt),
        (Some(a), Some(b)) => Err(source
            .error(
                b.key_span.clone(),
                &format!("`{}` is a key of srt's settings, `{}` one of Claude Code's", b.key, a.key),
            )
            .with_hint("put the two into files of their own and give both")),
        (None, None) => Err(source
            .error(
                0..0,
                "neither settings of Claude Code (`sandbox`, `permissions`) nor of srt (`network`, `filesystem`)",
            )
            .with_hint("`ccbox init` writes a commented TOML spec")),
    }
}

/// One file on its way.
#[derive(Debug)]
struct Import<'a> {
    source: &'a Source,
    /// Where relative paths of commands start.
    cwd: &'a Path,
    home: &'a Path,
    dialect: Dialect,
    /// Where paths of the settings file start.
    root: PathBuf,
    /// The file lies in a repository's `.claude`: it neither masks nor terminates nor turns anything off (semantics 18).
    repository: bool,
    /// Only the working directories are shown.
    bound: bool,
    out: Out<'a>,
    notices: Vec<String>,
    /// Keys that say nothing about what a command may do.
    beside: Vec<String>,
}

impl<'a> Import<'a> {
    fn new(source: &'a Source, place: Place<'a>, dialect: Dialect) -> Self {
        let own = source.file.as_deref().and_then(Path::parent);
        let own = own.filter(|dir| dialect == Dialect::Claude && dir.ends_with(".claude"));
        let users = place.home.join(".claude");
        let is_users = |dir: &Path| {
            dir == users || std::fs::canonicalize(dir).ok() == std::fs::canonicalize(&users).ok()
        };
        let repository = own.filter(|dir| !is_users(dir));
        let root = match (own, repository.and_then(Path::parent)) {
            (_, Some(project)) => project,
            (Some(users), None) => users,
            (None, None) => place.cwd,
        };
        Self {
            source,
            cwd: place.cwd,
            home: place.home,
            dialect,
            root: root.to_path_buf(),
            repository: repository.is_some(),
            bound: false,
            out: Out::default(),
            notices: Vec::new(),
            beside: Vec::new(),
        }
    }

    fn note(&self) -> String {
        let whose = match self.dialect {
            Dialect::Claude => "settings of Claude Code",
            Dialect::Srt => "settings of srt",
        };
        if self.beside.is_empty() {
            return whose.to_owned();
        }
        format!(
            "{whose}; not about what a command may do: `{}`",
            self.beside.join("`, `")
        )
    }

    fn error(&self, span: &Range<usize>, message: impl AsRef<str>) -> SpecError {
        self.source.error(span.clone(), message.as_ref())
    }

    /// Something the settings say and this sandbox does otherwise; `what` begins with the key.
    fn notice(&mut self, span: &Range<usize>, what: impl AsRef<str>) {
        let (line, _) = self.source.place(span.start);
        self.notices.push(format!(
            "{}:{line}: {}",
            shown(&self.source.name),
            what.as_ref()
        ));
    }

    /// A key that only decides how the other tool works.
    fn beside(&mut self, what: &str) {
        self.beside.push(shown(what));
    }

    /// A repository's settings may not say this (semantics 18). True where it is dropped.
    fn not_from_repository(&mut self, span: &Range<usize>, what: &str) -> bool {
        if self.repository {
            self.notice(
                span,
                format!(
                    "{what} is ignored in a repository's settings; write it in a spec of your own"
                ),
            );
        }
        self.repository
    }

    fn object<'n>(&self, what: &str, node: &'n Node) -> Result<&'n [Member], SpecError> {
        let Json::Object(members) = &node.value else {
            return Err(self.wrong(what, "an object", node));
        };
        Ok(members)
    }

    fn list<'n>(&self, what: &str, node: &'n Node) -> Result<&'n [Node], SpecError> {
        let Json::List(items) = &node.value else {
            return Err(self.wrong(what, "a list", node));
        };
        Ok(items)
    }

    fn text<'n>(&self, what: &str, node: &'n Node) -> Result<&'n str, SpecError> {
        let Json::Text(text) = &node.value else {
            return Err(self.wrong(what, "a string", node));
        };
        if text.is_empty() {
            return Err(self.error(&node.span, format!("`{what}` holds an empty string")));
        }
        Ok(text)
    }

    fn texts<'n>(&self, what: &str, node: &'n Node) -> Result<Vec<Placed<'n>>, SpecError> {
        self.list(what, node)?
            .iter()
            .map(|item| Ok((self.text(&format!("an entry of {what}"), item)?, &item.span)))
            .collect()
    }

    fn bool(&self, what: &str, node: &Node) -> Result<bool, SpecError> {
        let Json::Bool(b) = node.value else {
            return Err(self.wrong(what, "true or false", node));
        };
        Ok(b)
    }

    fn wrong(&self, what: &str, wanted: &str, got: &Node) -> SpecError {
        let kind = got.value.kind();
        self.error(&got.span, format!("`{what}` must be {wanted}, not {kind}"))
    }

    fn unsupported(&self, what: &str, span: &Range<usize>, why: &str) -> SpecError {
        self.error(span, format!("`{what}` is not supported: {why}"))
    }

    /// A key that nobody knows; the nearest of those that are known here.
    fn unknown(&self, place: &str, member: &Member, known: &[&str]) -> SpecError {
        let within = if place.is_empty() {
            String::new()
        } else {
            format!(" in `{place}`")
        };
        let error = self.error(
            &member.key_span,
            format!("unknown key `{}`{within}", shown(&member.key)),
        );
        match nearest(&member.key, known.iter().copied()) {
            Some(meant) => error.with_hint(&format!("did you mean `{meant}`")),
            None => error.with_hint(&format!("the keys here are `{}`", known.join("`, `"))),
        }
    }
}

#[cfg(test)]
mod tests;
