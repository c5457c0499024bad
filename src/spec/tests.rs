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
mod values;

/// A home, a workspace and a state directory of their own.
struct Lab {
    dir: tempfile::TempDir,
    request: LoadRequest,
}

impl Lab {
    fn new() -> Self {
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

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn cwd(&self) -> PathBuf {
        self.request.cwd.clone()
    }

    /// Writes a file below the root.
    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Gives `ws/spec.toml` with this content.
    fn spec(mut self, text: impl AsRef<[u8]>) -> Self {
        self.write("ws/spec.toml", text);
        self.request
            .specs
            .push(SpecSource::File("spec.toml".into()));
        self
    }

    fn inline(mut self, text: &str) -> Self {
        self.request.specs.push(SpecSource::Inline(text.into()));
        self
    }

    fn user(self, text: &str) -> Self {
        self.write("home/.config/ccbox/config.toml", text);
        self
    }

    fn project(self, text: &str) -> Self {
        self.write("ws/ccbox.toml", text);
        self
    }

    fn managed(self, text: &str) -> Self {
        self.write("etc/ccbox/managed.toml", text);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut LoadRequest)) -> Self {
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

    fn load(&self) -> Result<Loaded, SpecError> {
        self.load_as(false)
    }

    fn policy(&self) -> Policy {
        self.load().unwrap().policy
    }

    /// The error as the command line prints it, with the root directory as `@`.
    fn error(&self) -> String {
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
fn exact(list: &[crate::policy::Ruled<crate::policy::path::PathEntry>]) -> Vec<PathBuf> {
    list.iter()
        .filter_map(|r| r.value.exact().map(PathBuf::from))
        .collect()
}

fn os(text: &str) -> OsString {
    OsString::from(text)
}
