//! Which files are found, and which are passed over or refused.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn chmod(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The file of the project layer that took part, below the root.
fn found(lab: &Lab) -> Option<PathBuf> {
    let loaded = lab.load().unwrap();
    loaded
        .layers
        .iter()
        .find(|l| matches!(l.layer, Layer::Project { .. }))
        .map(|l| {
            l.file
                .as_ref()
                .unwrap()
                .strip_prefix(lab.root())
                .unwrap()
                .into()
        })
}

#[test]
fn the_nearest_file_up_to_the_repository_counts() {
    let lab = Lab::new().with(|r| r.cwd = r.cwd.join("a/b"));
    std::fs::create_dir_all(&lab.request.cwd).unwrap();
    assert_eq!(found(&lab), None);
    lab.write("ccbox.toml", "mode = \"plan\"");
    assert_eq!(found(&lab), Some("ccbox.toml".into()));
    lab.write("ws/.ccbox.toml", "mode = \"plan\"");
    assert_eq!(found(&lab), Some("ws/.ccbox.toml".into()));
    std::fs::create_dir(lab.root().join("ws/.git")).unwrap();
    assert_eq!(
        found(&lab),
        Some("ws/.ccbox.toml".into()),
        "the repository's own directory counts"
    );
    std::fs::write(lab.root().join("ws/a/.git"), "gitdir: elsewhere").unwrap();
    assert_eq!(found(&lab), None, "a linked worktree ends the search too");
}

#[test]
fn home_is_excluded_and_ends_the_search() {
    let lab = Lab::new().with(|r| r.cwd = r.home.clone());
    lab.write("home/ccbox.toml", "mode = \"plan\"");
    lab.write("ccbox.toml", "mode = \"plan\"");
    assert_eq!(found(&lab), None);
    let lab = lab.with(|r| r.cwd = r.home.join("src"));
    std::fs::create_dir(&lab.request.cwd).unwrap();
    assert_eq!(found(&lab), None);
    lab.write("home/src/ccbox.toml", "mode = \"plan\"");
    assert_eq!(found(&lab), Some("home/src/ccbox.toml".into()));
}

#[test]
fn a_cwd_reached_through_a_link_finds_the_same_file() {
    let lab = Lab::new().project("protected_paths = [\"x\"]");
    symlink(lab.cwd(), lab.root().join("way")).unwrap();
    let lab = lab.with(|r| r.cwd = r.cwd.parent().unwrap().join("way"));
    assert_eq!(found(&lab), Some("ws/ccbox.toml".into()));
    assert_eq!(exact(&lab.policy().fs.protected), [lab.root().join("ws/x")]);
}

#[test]
fn both_names_are_an_error() {
    let lab = Lab::new().project("mode = \"plan\"");
    lab.write("ws/.ccbox.toml", "mode = \"plan\"");
    assert_eq!(
        lab.error(),
        "`@/ws/ccbox.toml` and `@/ws/.ccbox.toml` both exist; hint: keep one of them"
    );
}

#[test]
fn what_everybody_may_write_is_passed_over_in_one_line() {
    let lab = Lab::new().project("mode = \"plan\"");
    chmod(&lab.cwd().join("ccbox.toml"), 0o666);
    let name = lab.cwd().join("ccbox.toml").display().to_string();
    assert_eq!(found(&lab), None);
    assert_eq!(
        lab.policy().notices,
        [format!(
            "`{name}` is passed over: it is writable by everybody"
        )]
    );
    chmod(&lab.cwd().join("ccbox.toml"), 0o664);
    assert_eq!(found(&lab), Some("ws/ccbox.toml".into()));
    chmod(&lab.cwd(), 0o1777);
    lab.write("ccbox.toml", "mode = \"plan\"");
    assert_eq!(
        found(&lab),
        None,
        "nothing above such a directory counts either"
    );
    assert_eq!(
        lab.policy().notices,
        [format!(
            "`{name}` is passed over: its directory is writable by everybody"
        )]
    );
}

#[test]
fn a_file_of_somebody_else_is_passed_over() {
    let lab = Lab::new().project("mode = \"plan\"");
    let me = lab.request.uid;
    let file = lab.cwd().join("ccbox.toml");
    // Root can give the file away; anybody else looks at it with another uid.
    let lab = if me == 0 {
        std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        lab
    } else {
        lab.with(|r| r.uid = me + 1)
    };
    assert_eq!(found(&lab), None);
    let whose = if me == 0 { "it" } else { "its directory" };
    assert_eq!(
        lab.policy().notices,
        [format!(
            "`{}` is passed over: {whose} belongs to somebody else",
            file.display()
        )]
    );
    if me == 0 {
        // Root's directories count for everybody.
        std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        let lab = lab.with(|r| r.uid = 4711);
        let host = Host {
            macos: false,
            managed_owner: 0,
        };
        let loaded = load_on(&lab.request, host).unwrap();
        assert!(
            loaded
                .layers
                .iter()
                .any(|l| l.layer == Layer::Project { trusted: false })
        );
    }
}

#[test]
fn links_and_odd_files_are_errors_not_ignored_policies() {
    let lab = Lab::new();
    lab.write("real.toml", "mode = \"plan\"");
    symlink(lab.root().join("real.toml"), lab.cwd().join("ccbox.toml")).unwrap();
    assert_eq!(
        lab.error(),
        "@/ws/ccbox.toml: too many symbolic links encountered; hint: discovery does not follow links, name the file with `-f @/ws/ccbox.toml`"
    );
    std::fs::remove_file(lab.cwd().join("ccbox.toml")).unwrap();
    std::fs::create_dir(lab.cwd().join("ccbox.toml")).unwrap();
    assert_eq!(lab.error(), "@/ws/ccbox.toml: is not a regular file");
    std::fs::remove_dir(lab.cwd().join("ccbox.toml")).unwrap();
    nix::unistd::mkfifo(&lab.cwd().join("ccbox.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(lab.error(), "@/ws/ccbox.toml: is not a regular file");
}

#[test]
fn a_given_spec_stops_discovery() {
    let lab = Lab::new()
        .project("mode = \"plan\"")
        .inline("agent_id = \"a\"");
    assert_eq!(found(&lab), None);
    assert_eq!(lab.policy().mode, crate::policy::Mode::Chat);
}

#[test]
fn given_files_that_cannot_be_read() {
    for (path, want) in [
        ("absent.toml", "absent.toml: no such file or directory"),
        (".", ".: is a directory, not a spec"),
        (
            "/dev/null",
            "/dev/null: the spec is empty; hint: `ccbox init` writes a commented one to start from",
        ),
    ] {
        let lab = Lab::new().with(|r| r.specs.push(SpecSource::File(path.into())));
        assert_eq!(lab.error(), want);
    }
    let lab = Lab::new().with(|r| r.specs.push(SpecSource::File("-".into())));
    assert_eq!(
        lab.error(),
        "the spec is standard input (`-f -`), which could not be read"
    );
    if !nix::unistd::getuid().is_root() {
        let lab = Lab::new().spec("mode = \"plan\"");
        chmod(&lab.cwd().join("spec.toml"), 0);
        assert_eq!(lab.error(), "spec.toml: permission denied");
    }
}

#[test]
fn the_managed_file_must_be_safe_from_others() {
    let lab = Lab::new().managed("mode = \"plan\"");
    assert_eq!(lab.policy().mode, crate::policy::Mode::Plan);
    for (path, mode) in [("etc/ccbox/managed.toml", 0o664), ("etc/ccbox", 0o777)] {
        let path = lab.root().join(path);
        let before = std::fs::metadata(&path).unwrap().permissions();
        chmod(&path, mode);
        let error = lab.error();
        assert!(
            error.contains("must be owned by root and writable by nobody else; hint: chown root"),
            "{error}"
        );
        std::fs::set_permissions(&path, before).unwrap();
    }
    // Somebody else's file.
    let host = Host {
        macos: false,
        managed_owner: lab.request.uid + 1,
    };
    assert!(load_on(&lab.request, host).is_err());
    std::fs::remove_file(&lab.request.managed).unwrap();
    std::fs::create_dir(&lab.request.managed).unwrap();
    assert_eq!(
        lab.error(),
        "@/etc/ccbox/managed.toml: is a directory, not a spec"
    );
}

#[test]
fn the_user_file_is_read_through_links_and_refused_when_everybody_may_write_it() {
    let lab = Lab::new();
    let real = lab.write(
        "dotfiles/ccbox.toml",
        "mode = \"plan\"\nprotected_paths = [\"x\"]",
    );
    symlink(&real, lab.request.config_dir.join("config.toml")).unwrap();
    let p = lab.policy();
    assert_eq!(p.mode, crate::policy::Mode::Plan);
    assert_eq!(
        exact(&p.fs.protected),
        [lab.request.config_dir.join("x")],
        "its own directory is the base"
    );
    let own: Vec<_> = p.fs.own_files.iter().map(|o| o.value.clone()).collect();
    assert_eq!(
        own,
        [lab.request.config_dir.join("config.toml"), real.clone()]
    );
    chmod(&real, 0o646);
    assert!(
        lab.error()
            .starts_with("@/home/.config/ccbox/config.toml: anybody may write this file")
    );
}

#[test]
fn used_files_are_never_writable_inside() {
    let lab = Lab::new()
        .user("mode = \"plan\"")
        .managed("mode = \"plan\"")
        .project("mode = \"plan\"");
    let own: Vec<_> = lab
        .policy()
        .fs
        .own_files
        .iter()
        .map(|o| o.value.clone())
        .collect();
    assert_eq!(
        own,
        [
            lab.request.config_dir.join("config.toml"),
            lab.cwd().join("ccbox.toml"),
            lab.request.managed.clone(),
        ]
    );
}
