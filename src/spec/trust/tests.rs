use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

struct Box {
    dir: tempfile::TempDir,
}

impl Box {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        std::fs::write(dir.path().join("ws/ccbox.toml"), text).unwrap();
        Self { dir }
    }

    fn path(&self, p: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(p)
    }

    fn inspect(&self, file: &str) -> Result<Candidate, SpecError> {
        inspect(TrustRequest {
            file: Path::new(file),
            cwd: &self.path("ws"),
            home: &self.path("home"),
            uid: uid(),
        })
    }

    fn record(&self) -> Result<(), SpecError> {
        record(&self.path("state"), uid(), &self.inspect("ccbox.toml")?)
    }

    fn is_trusted(&self) -> bool {
        let file = self.path("ws/ccbox.toml");
        let bytes = std::fs::read(&file).unwrap();
        is_recorded(&self.path("state"), uid(), &file, uid(), &bytes)
    }
}

fn uid() -> u32 {
    nix::unistd::getuid().as_raw()
}

#[test]
fn a_record_holds_for_these_bytes_at_this_path() {
    let b = Box::new("mode = \"chat\"\n");
    assert!(!b.is_trusted());
    b.record().unwrap();
    assert!(b.is_trusted());
    let again = b.inspect("ccbox.toml").unwrap();
    assert!(again.is_trusted(&b.path("state"), uid()));
    let file = b.path("ws/ccbox.toml");
    assert!(!is_recorded(
        &b.path("state"),
        uid(),
        &file,
        uid(),
        b"other"
    ));
    assert!(!is_recorded(
        &b.path("state"),
        uid(),
        &file,
        uid() + 1,
        b"mode = \"chat\"\n"
    ));
    assert!(!is_recorded(
        &b.path("state"),
        uid(),
        &b.path("ws/.ccbox.toml"),
        uid(),
        b"mode = \"chat\"\n"
    ));
    std::fs::write(&file, "mode = \"plan\"\n").unwrap();
    assert!(!b.is_trusted());
    let changed = b.inspect("ccbox.toml").unwrap();
    assert!(!changed.is_trusted(&b.path("state"), uid()));
    b.record().unwrap();
    assert!(b.is_trusted(), "a second record replaces the first");
    assert!(forget(&b.path("state"), uid(), &file).unwrap());
    assert!(!b.is_trusted());
    assert!(!forget(&b.path("state"), uid(), &file).unwrap());
}

#[test]
fn records_are_private_and_nothing_else_is_left_behind() {
    let b = Box::new("mode = \"chat\"\n");
    b.record().unwrap();
    b.record().unwrap();
    let dir = b.path("state/trust");
    let names: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap())
        .collect();
    assert_eq!(names.len(), 1);
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&names[0].path()), 0o600);
    assert_eq!(mode(&dir), 0o700);
}

#[test]
fn a_store_others_can_write_is_no_store() {
    let b = Box::new("mode = \"chat\"\n");
    b.record().unwrap();
    let dir = b.path("state/trust");
    let chmod = |p: &Path, mode| {
        std::fs::set_permissions(p, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod(&dir, 0o777);
    assert!(!b.is_trusted());
    assert!(b.record().is_err());
    chmod(&dir, 0o700);
    assert!(b.is_trusted());
    let record = std::fs::read_dir(&dir)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    chmod(&record, 0o620);
    assert!(!b.is_trusted());
    chmod(&record, 0o600);
    let moved = b.path("elsewhere");
    std::fs::rename(&record, &moved).unwrap();
    symlink(&moved, &record).unwrap();
    assert!(!b.is_trusted(), "a link is not followed");
    b.record().unwrap();
    assert!(b.is_trusted(), "and is replaced, not written through");
    assert!(moved.symlink_metadata().unwrap().is_file());
}

#[test]
fn a_linked_store_is_refused() {
    let b = Box::new("mode = \"chat\"\n");
    std::fs::create_dir_all(b.path("other")).unwrap();
    std::fs::create_dir_all(b.path("state")).unwrap();
    symlink(b.path("other"), b.path("state/trust")).unwrap();
    assert!(b.record().is_err());
    assert_eq!(std::fs::read_dir(b.path("other")).unwrap().count(), 0);
}

#[test]
fn every_grant_is_listed_before_it_is_accepted() {
    let b = Box::new(
        "mode = \"chat\"\nprotected_paths = [\"x\"]\n[filesystem]\nallow_write = [\n  \"/out\", # c\n]\ndeny_read = [\"y\"]\n\
         [network]\nbaseline = false\nallowed_domains = []\n[[bind_mounts]]\nhost_path = \"${param:W}\"\n[env]\nset = { A = \"1\" }\n",
    );
    let grants: Vec<String> = b
        .inspect("ccbox.toml")
        .unwrap()
        .grants
        .iter()
        .map(|g| format!("{}: {} = {}", g.line, g.key, g.value))
        .collect();
    assert_eq!(
        grants,
        [
            "1: mode = \"chat\"",
            "4: filesystem.allow_write = [ \"/out\", # c ]",
            "12: bind_mounts.host_path = \"${param:W}\"",
            "14: env.set = { A = \"1\" }",
        ]
    );
}

#[test]
fn only_files_that_discovery_takes_can_be_trusted() {
    let b = Box::new("mode = \"chat\"\n");
    std::fs::write(b.path("ws/spec.toml"), "mode = \"chat\"").unwrap();
    assert!(
        b.inspect("spec.toml")
            .unwrap_err()
            .message
            .contains("only a `ccbox.toml`")
    );
    symlink("ccbox.toml", b.path("ws/.ccbox.toml")).unwrap();
    assert!(b.inspect(".ccbox.toml").is_err());
    assert!(
        b.inspect("sub/ccbox.toml")
            .unwrap_err()
            .message
            .ends_with("no such file or directory")
    );
    let file = b.path("ws/ccbox.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(
        b.inspect("ccbox.toml")
            .unwrap_err()
            .message
            .ends_with("the file is writable by everybody")
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&file, "mode = 7").unwrap();
    assert!(
        b.inspect("ccbox.toml")
            .unwrap_err()
            .message
            .contains(":1:8: `mode` must be a string")
    );
}

#[test]
fn what_was_shown_is_what_is_recorded() {
    let b = Box::new("mode = \"chat\"\n");
    let shown = b.inspect("ccbox.toml").unwrap();
    std::fs::write(b.path("ws/ccbox.toml"), "sandbox = \"off\"\n").unwrap();
    record(&b.path("state"), uid(), &shown).unwrap();
    assert!(!b.is_trusted());
}
