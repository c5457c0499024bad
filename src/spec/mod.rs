//! TOML layers with provenance, merged into a policy.
//!
//! [`load`] reads the files that apply (discovery, trust), parses them strictly, and merges them. Nothing here changes anything.

mod dots;
mod files;
mod flags;
mod keys;
mod later;
mod layer;
mod managed;
mod merge;
mod notices;
mod params;
mod ports;
mod profile;
mod reader;
mod schema;
mod source;
mod suggest;
mod surface;
mod template;
pub mod trust;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::policy::{Layer, Policy, SandboxMode};
use layer::{Layered, Place};
use merge::{Call, Stack};
use params::Params;
use source::shown;

/// What a project file may be called.
pub use files::PROJECT_NAMES;
pub use layer::Grant;
pub use profile::text as profile_text;
pub use template::init_template;

/// Where a given spec comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecSource {
    /// `-f FILE` (a FIFO or `-` is read once; relative paths then start at the cwd).
    File(PathBuf),
    /// `-p TOML`.
    Inline(String),
}

/// Sugar flags: spec keys typed on the command line. The name of the flag is the origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlagRules {
    /// `--rw`
    pub rw: Vec<OsString>,
    /// `--ro`
    pub ro: Vec<OsString>,
    /// `--deny-read`
    pub deny_read: Vec<OsString>,
    /// `--deny-write`
    pub deny_write: Vec<OsString>,
    /// `--protect`
    pub protect: Vec<OsString>,
    /// `--allow-host`
    pub allow_host: Vec<String>,
    /// `--deny-host`
    pub deny_host: Vec<String>,
    /// `--no-network`
    pub no_network: bool,
    /// `--env K=V`
    pub env_set: Vec<OsString>,
    /// `--pass-env K`
    pub env_pass: Vec<String>,
    /// `--chdir`
    pub chdir: Option<PathBuf>,
    /// `--mode`, as typed
    pub mode: Option<String>,
    /// `--backend`, as typed
    pub backend: Option<String>,
    /// `--engine`, as typed
    pub engine: Option<String>,
    /// `--sandbox`, as typed
    pub sandbox: Option<String>,
    /// `--session`
    pub session: Option<String>,
}

/// Everything `load` needs to know about the call.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// `-f` and `-p` in order; empty means discovery (after `CCBOX_SPEC`).
    pub specs: Vec<SpecSource>,
    /// `-n PROFILE`.
    pub profile: Option<String>,
    /// `-D KEY=VALUE`, split.
    pub params: Vec<(String, String)>,
    /// Flags.
    pub flags: FlagRules,
    /// `CCBOX_SPEC` where set and not empty.
    pub env_spec: Option<OsString>,
    /// `CCBOX_SANDBOX` where set and not empty.
    pub env_sandbox: Option<OsString>,
    /// The caller's cwd as spelled.
    pub cwd: PathBuf,
    /// `$HOME`.
    pub home: PathBuf,
    /// The caller's uid.
    pub uid: u32,
    /// ccbox's config directory (`config.toml`).
    pub config_dir: PathBuf,
    /// ccbox's state directory (trust records).
    pub state_dir: PathBuf,
    /// `/etc/ccbox/managed.toml`, another path in tests.
    pub managed: PathBuf,
    /// Built-in parameters for `${param:KEY}` given by the caller's context.
    pub stdin_spec: Option<Vec<u8>>,
}

/// A layer that took part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// Kind.
    pub layer: Layer,
    /// File, where it is one.
    pub file: Option<PathBuf>,
    /// What happened to it, e.g. `3 keys ignored: not trusted`.
    pub note: Option<String>,
}

/// The result of loading.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Merged policy.
    pub policy: Policy,
    /// Layers, weakest first.
    pub layers: Vec<LayerInfo>,
}

/// What is wrong with a spec: one problem, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecError {
    /// `file:line:col: what`, lower case.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
    /// Source line with a caret.
    pub snippet: Option<String>,
}

impl Failure for SpecError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
    fn detail(&self) -> Option<String> {
        self.snippet.clone()
    }
}

impl SpecError {
    /// An error without a place in a file.
    pub(crate) fn plain(message: String) -> Self {
        Self {
            message,
            hint: None,
            snippet: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }
}

/// Loads and merges the layers that apply to this call.
///
/// # Errors
/// The first problem found: an unreadable file, a key or value that is unknown, wrong or not supported yet.
pub fn load(req: &LoadRequest) -> Result<Loaded, SpecError> {
    load_as(req, std::env::consts::OS == "macos")
}

/// As [`load`], with the profiles of macOS or those of other systems.
///
/// # Errors
/// As [`load`].
pub fn load_as(req: &LoadRequest, macos: bool) -> Result<Loaded, SpecError> {
    let managed_owner = 0;
    load_on(
        req,
        Host {
            macos,
            managed_owner,
        },
    )
}

/// What tests make up.
#[derive(Debug, Clone, Copy)]
struct Host {
    macos: bool,
    /// Who must own the managed file: root.
    managed_owner: u32,
}

fn load_on(req: &LoadRequest, host: Host) -> Result<Loaded, SpecError> {
    let params = Params::new(&req.params)?;
    let flags = flags::keys(&req.flags, &req.cwd, &req.home)?;
    let variable = sandbox_variable(req)?;
    let managed = managed_layer(req, host)?;
    let spec_by_variable = req.specs.is_empty() && req.env_spec.is_some();
    let given: Vec<SpecSource> = match &req.env_spec {
        Some(file) if req.specs.is_empty() => vec![SpecSource::File(PathBuf::from(file))],
        _ => req.specs.clone(),
    };
    let spec_given = !given.is_empty();
    let mut notices = Vec::new();
    let mut files: Vec<Layered> = Vec::new();
    files.extend(user_layer(req, &params, spec_given)?);
    for spec in &given {
        let layered = given_layer(req, &params, spec).map_err(|e| match e.hint {
            None if spec_by_variable => e.with_hint("the file is named by CCBOX_SPEC"),
            _ => e,
        })?;
        files.push(layered);
    }
    if !spec_given {
        files.extend(project_layer(req, &params, &mut notices)?);
    }
    params.all_used()?;

    let default = if spec_given {
        profile::WITH_SPEC
    } else {
        profile::WITHOUT_SPEC
    };
    let written = files.iter().rev().find_map(|f| f.keys.profile.as_ref());
    let name = match (&req.profile, written) {
        (Some(typed), _) => profile::by_name(typed)?,
        (None, Some(written)) => written.value,
        (None, None) => default,
    };
    let stack = Stack {
        profile: profile::read(name, &req.home)?,
        files,
        variable,
        flags,
        managed,
    };
    let call = Call {
        profile: name,
        spec_given,
        spec_by_variable,
        macos: host.macos,
    };
    let mut loaded = merge::merge(stack, call)?;
    loaded.policy.notices.splice(0..0, notices);
    Ok(loaded)
}

/// Every typed value is strict, a variable's too (semantics 14); an empty one counts as unset.
fn sandbox_variable(req: &LoadRequest) -> Result<Option<SandboxMode>, SpecError> {
    let Some(value) = req.env_sandbox.as_ref().filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    let typed = value.to_string_lossy();
    match reader::choose(&typed, surface::SANDBOXES) {
        Ok(mode) => Ok(Some(mode)),
        Err(hint) => Err(SpecError::plain(format!(
            "unknown value `{}` for CCBOX_SANDBOX",
            shown(&typed)
        ))
        .with_hint(&hint)),
    }
}

fn managed_layer(req: &LoadRequest, host: Host) -> Result<Option<Layered>, SpecError> {
    let Some(opened) = files::managed(&req.managed, host.managed_owner)? else {
        return Ok(None);
    };
    // Parameters are the caller's, and the managed file is a ceiling over the caller.
    let none = Params::default();
    let layered = layer::read(&opened.source, place(&opened, req), &none)?;
    managed::refuse_personal_keys(&layered.keys)?;
    Ok(Some(layered))
}

/// Beside a given spec the user file adds its denies only (semantics 17).
fn user_layer(
    req: &LoadRequest,
    params: &Params,
    spec_given: bool,
) -> Result<Option<Layered>, SpecError> {
    let Some(opened) = files::user(&req.config_dir)? else {
        return Ok(None);
    };
    let mut layered = layer::read(&opened.source, place(&opened, req), params)?;
    if spec_given {
        layered.keys = layered.keys.denies_only();
        layered.info.note = Some("denies only: a spec is given".to_owned());
    }
    Ok(Some(layered))
}

fn given_layer(
    req: &LoadRequest,
    params: &Params,
    spec: &SpecSource,
) -> Result<Layered, SpecError> {
    let opened = files::given(spec, &req.cwd, req.stdin_spec.as_deref())?;
    let layered = layer::read(&opened.source, place(&opened, req), params)?;
    if layered.is_empty {
        return Err(
            SpecError::plain(format!("{}: the spec is empty", shown(&opened.source.name)))
                .with_hint("`ccbox init` writes a commented one to start from"),
        );
    }
    Ok(layered)
}

fn project_layer(
    req: &LoadRequest,
    params: &Params,
    notices: &mut Vec<String>,
) -> Result<Option<Layered>, SpecError> {
    let caller = files::Caller {
        uid: req.uid,
        home: &req.home,
        state_dir: &req.state_dir,
    };
    let discovered = files::project(&req.cwd, caller)?;
    notices.extend(discovered.notices);
    match discovered.file {
        Some(opened) => layer::read(&opened.source, place(&opened, req), params).map(Some),
        None => Ok(None),
    }
}

fn place<'a>(opened: &'a files::Opened, req: &'a LoadRequest) -> Place<'a> {
    Place {
        base: &opened.base,
        home: &req.home,
    }
}

#[cfg(test)]
mod tests;
