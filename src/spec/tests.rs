//! Loading, from files to policy. `errors` pins the messages, `layers` the merge, `discovery` the files.

use std::ffi::OsString;
use std::path::PathBuf;

use super::*;

mod discovery;
mod errors;
mod examples;
mod layers;
mod profiles;
mod properties;
mod reference;
mod values;

/// A home, a workspace and a state directory of their own.
pub(in crate::spec) struct Lab {
    dir: tempfile::TempDir,
    pub(in crate::spec) request: LoadRequest,
}

impl Lab {
    pub(in crate::spec) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("home");
        let cwd = root.join("ws");
        for d in [
            "home/.config/ccbox",
            "home/.local/state/ccbox",
            "ws",
            "etc/ccbox",
        ] {
            std::fs::create_dir_all(root.join(d)).unwrap();
        }
        let request = LoadRequest {
            specs: Vec::new(),
            profile: None,
            params: Vec::new(),
            flags: FlagRules::default(),
            env_spec: None,
            env_sandbox: None,
            cwd,
            uid: nix::unistd::getuid().as_raw(),
            config_dir: home.join(".config/ccbox"),
            state_dir: home.join(".local/state/ccbox"),
            managed: root.join("etc/ccbox/managed.toml"),
            home,
            stdin_spec: None,
        };
        Self { dir, request }
    }

    pub(in crate::spec) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(in crate::spec) fn cwd(&self) -> PathBuf {
        self.request.cwd.clone()
    }

    /// Writes a file below the root.
    pub(in crate::spec) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Gives `ws/spec.toml` with this content.
    pub(in crate::spec) fn spec(mut self, text: impl AsRef<[u8]>) -> Self {
        self.write("ws/spec.toml", text);
        self.request
            .specs
            .push(SpecSource::File("spec.toml".into()));
        self
    }

    /// Gives `ws/NAME`, or an absolute path below the root, with these settings.
    pub(in crate::spec) fn json(mut self, name: &str, text: &str) -> Self {
        let path = self.write(&format!("ws/{name}"), text);
        self.request.specs.push(SpecSource::File(path));
        self
    }

    pub(in crate::spec) fn inline(mut self, text: &str) -> Self {
        self.request.specs.push(SpecSource::Inline(text.into()));
        self
    }

    pub(in crate::spec) fn user(self, text: &str) -> Self {
        self.write("home/.config/ccbox/config.toml", text);
        self
    }

    pub(in crate::spec) fn project(self, text: &str) -> Self {
        self.write("ws/ccbox.toml", text);
        self
    }

    pub(in crate::spec) fn managed(self, text: &str) -> Self {
        self.write("etc/ccbox/managed.toml", text);
        self
    }

    pub(in crate::spec) fn with(mut self, change: impl FnOnce(&mut LoadRequest)) -> Self {
        change(&mut self.request);
        self
    }

    fn load_as(&self, macos: bool) -> Result<Loaded, SpecError> {
        let host = Host {
            macos,
            managed_owner: self.request.uid,
        };
        load_on(&self.request, host)
    }

    pub(in crate::spec) fn load(&self) -> Result<Loaded, SpecError> {
        self.load_as(false)
    }

    pub(in crate::spec) fn policy(&self) -> Policy {
        self.load().unwrap().policy
    }

    /// The error as the command line prints it, with the root directory as `@`.
    pub(in crate::spec) fn error(&self) -> String {
        let e = self.load().expect_err("an error");
        let line = match &e.hint {
            Some(hint) => format!("{}; hint: {hint}", e.message),
            None => e.message,
        };
        assert!(!line.contains('\n'), "{line}");
        line.replace(&self.root().display().to_string(), "@")
    }

    fn trust(&self) {
        let candidate = trust::inspect(trust::TrustRequest {
            file: "ccbox.toml".as_ref(),
            cwd: &self.request.cwd,
            home: &self.request.home,
            uid: self.request.uid,
        })
        .unwrap();
        trust::record(&self.request.state_dir, self.request.uid, &candidate).unwrap();
    }
}

/// The exact paths of a list.
pub(in crate::spec) fn exact(
    list: &[crate::policy::Ruled<crate::policy::path::PathEntry>],
) -> Vec<PathBuf> {
    list.iter()
        .filter_map(|r| r.value.exact().map(PathBuf::from))
        .collect()
}

fn os(text: &str) -> OsString {
    OsString::from(text)
}
