//! Packages agree: with Cargo.toml, with each other, and with the files they carry. The Debian one is installed by `packaging/check-deb`.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{CCBOX, program};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn manifest() -> toml_edit::DocumentMut {
    text("Cargo.toml").parse().unwrap()
}

/// Files and links below a directory, relative to it.
fn below(dir: &Path) -> BTreeSet<PathBuf> {
    let (mut out, mut left) = (BTreeSet::new(), vec![dir.to_owned()]);
    while let Some(at) = left.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                out.insert(entry.path().strip_prefix(dir).unwrap().to_owned());
            }
        }
    }
    out
}

/// What `packaging/install` puts below `/usr`.
fn installed() -> (tempfile::TempDir, BTreeSet<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(root().join("packaging/install"))
        .arg(CCBOX)
        .env("DESTDIR", dir.path())
        .env("PREFIX", "/usr")
        .env("ZSHDIR", "/usr/share/zsh/vendor-completions")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let files = below(dir.path());
    (dir, files)
}

#[test]
fn what_is_installed_is_complete() {
    let (dir, files) = installed();
    let has = |path: String| assert!(files.contains(Path::new(&path)), "{path}");
    for page in below(&root().join("man")) {
        let section = page.extension().unwrap().to_str().unwrap();
        has(format!("usr/share/man/man{section}/{}", page.display()));
    }
    for page in std::fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap();
        if page.file_type().unwrap().is_file() {
            has(format!(
                "usr/share/doc/ccbox/{}",
                page.file_name().display()
            ));
        }
    }
    for example in below(&root().join("examples")) {
        let to = format!("usr/share/doc/ccbox/examples/{}", example.display());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o111;
        assert_eq!(
            mode(&root().join("examples").join(&example)) == 0,
            mode(&dir.path().join(&to)) == 0,
            "{to}"
        );
        has(to);
    }
    for name in [
        "usr/bin/ccbox",
        "usr/share/bash-completion/completions/ccbox",
        "usr/share/zsh/vendor-completions/_ccbox",
        "usr/share/fish/vendor_completions.d/ccbox.fish",
        "usr/share/ccbox/apparmor/ccbox",
        "usr/share/doc/ccbox/LICENSE-MIT",
        "usr/share/doc/ccbox/LICENSE-APACHE",
    ] {
        has(name.to_owned());
    }
    let link = dir.path().join("usr/bin/ccbox-sh");
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("ccbox"));
    let version = Command::new(dir.path().join("usr/bin/ccbox"))
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("ccbox {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// `*` and `**/*` at the end of a path's parts.
fn matching(pattern: &str) -> Vec<(PathBuf, PathBuf)> {
    let (dir, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let (dir, deep) = dir.strip_suffix("/**").map_or((dir, false), |d| (d, true));
    let (head, tail) = name.split_once('*').unwrap_or((name, ""));
    below(&root().join(dir))
        .into_iter()
        .filter(|p| deep || p.components().count() == 1)
        .filter(|p| {
            let base = p.file_name().unwrap().to_str().unwrap();
            if name.contains('*') {
                base.starts_with(head) && base.ends_with(tail)
            } else {
                base == name
            }
        })
        .map(|p| (Path::new(dir).join(&p), p))
        .collect()
}

/// The list of the Debian package, read as cargo-deb does.
#[test]
fn the_debian_package_has_the_same_files() {
    let manifest = manifest();
    let assets = manifest["package"]["metadata"]["deb"]["assets"]
        .as_array()
        .unwrap();
    let mut listed = BTreeSet::new();
    for asset in assets {
        let parts: Vec<&str> = asset
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p.as_str().unwrap())
            .collect();
        let [from, to, _mode] = parts[..] else {
            panic!("{asset}")
        };
        let sources = if let Some(built) = from.strip_prefix("target/release/") {
            vec![(PathBuf::from(from), PathBuf::from(built))]
        } else {
            matching(from)
        };
        assert!(!sources.is_empty(), "{from} is nothing");
        for (_, name) in sources {
            listed.insert(if to.ends_with('/') {
                Path::new(to).join(name)
            } else {
                PathBuf::from(to)
            });
        }
    }
    let (_dir, files) = installed();
    assert_eq!(listed, files);
    let depends = &manifest["package"]["metadata"]["deb"]["depends"];
    assert_eq!(depends.as_str(), Some("$auto"));
}

/// The value after `name=` or `name "`, without quotes.
fn value<'t>(text: &'t str, head: &str) -> &'t str {
    let line = text
        .lines()
        .map(str::trim)
        .find_map(|l| l.strip_prefix(head))
        .unwrap_or_else(|| panic!("{head}"));
    line.trim_matches(|c: char| "\"'; ".contains(c))
}

#[test]
fn the_other_packages_say_the_same() {
    let manifest = manifest();
    let field = |name: &str| manifest["package"][name].as_str().unwrap().to_owned();
    let (version, description, license) =
        (field("version"), field("description"), field("license"));
    // One line of a package list, as Debian and Homebrew want it.
    assert!(description.len() < 80 && !description.ends_with('.'));
    assert_eq!(license, "MIT OR Apache-2.0");

    let arch = text("packaging/PKGBUILD");
    assert_eq!(value(&arch, "pkgver="), version);
    assert_eq!(value(&arch, "pkgdesc="), description);
    assert_eq!(value(&arch, "license="), format!("('{license}')"));
    let nix = text("flake.nix");
    assert_eq!(value(&nix, "version = "), version);
    assert_eq!(value(&nix, "description = "), description);
    for name in ["mit", "asl20"] {
        assert!(nix.lines().any(|l| l.trim() == name), "{name}");
    }
    let brew = text("packaging/homebrew/ccbox.rb");
    assert_eq!(value(&brew, "version "), version);
    assert_eq!(value(&brew, "desc "), description);
    assert_eq!(value(&brew, "license any_of: "), r#"["MIT", "Apache-2.0"]"#);
    // All of them put what `packaging/install` puts, of a locked build.
    for (name, package) in [
        ("PKGBUILD", &arch),
        ("flake.nix", &nix),
        ("ccbox.rb", &brew),
    ] {
        assert!(package.contains("packaging/install"), "{name}");
    }
    assert!(
        arch.contains("--frozen")
            && brew.contains("--locked")
            && nix.contains("cargoLock.lockFile")
    );
    // The licences' texts are there, and the lowest compiler is the one of the manifest.
    assert!(text("LICENSE-MIT").starts_with("MIT License"));
    assert!(text("LICENSE-APACHE").contains("Apache License"));
    assert!(text("README.md").contains("MIT or Apache-2.0"));
}

/// Quotes and brackets close: what a parser says first.
#[test]
fn the_other_packages_are_well_formed() {
    for name in ["flake.nix", "packaging/homebrew/ccbox.rb"] {
        let (mut open, mut quoted) = (Vec::new(), false);
        for line in text(name).lines() {
            let line = line.split("# ").next().unwrap();
            let mut before = ' ';
            for c in line.chars() {
                match c {
                    '"' if before != '\\' => quoted = !quoted,
                    '(' | '[' | '{' if !quoted => open.push(c),
                    ')' | ']' | '}' if !quoted => {
                        let pair = format!("{}{c}", open.pop().unwrap_or(' '));
                        assert!(
                            ["()", "[]", "{}"].contains(&pair.as_str()),
                            "{name}: {line}"
                        );
                    }
                    _ => {}
                }
                before = c;
            }
            assert!(!quoted, "{name}: {line}");
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
    let brew = text("packaging/homebrew/ccbox.rb");
    let starts = |l: &&str| {
        let l = l.trim();
        l.starts_with("class ") || l.starts_with("def ") || l.ends_with(" do")
    };
    assert_eq!(
        brew.lines().filter(starts).count(),
        brew.lines().filter(|l| l.trim() == "end").count()
    );
}

#[test]
fn scripts_of_packages_are_clean() {
    let names = [
        "packaging/install",
        "packaging/build-deb",
        "packaging/check-deb",
        "packaging/deb/postinst",
        "packaging/deb/prerm",
        ".ci/tools",
        ".ci/run",
        ".ci/darwin",
        ".ci/fmt",
        "tests/run",
        "examples/first-run",
    ];
    for name in names {
        let out = Command::new(program("shellcheck"))
            .arg(root().join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{name}\n{said}");
    }
    // Variables of makepkg come and go.
    let out = Command::new(program("shellcheck"))
        .args(["--shell=bash", "--exclude=SC2034,SC2154,SC2164"])
        .arg(root().join("packaging/PKGBUILD"))
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    let parsed = Command::new("bash")
        .arg("-n")
        .arg(root().join("packaging/PKGBUILD"))
        .status();
    assert!(parsed.unwrap().success());
}

/// The profile is put in place where the kernel asks for one, and only there; a changed one stays.
#[test]
fn the_apparmor_profile_comes_and_goes() {
    let (dir, _) = installed();
    let script = |name: &str, word: &str| {
        let status = Command::new(root().join("packaging/deb").join(name))
            .arg(word)
            .env("DPKG_ROOT", dir.path())
            .status()
            .unwrap();
        assert!(status.success());
    };
    let profile = dir.path().join("etc/apparmor.d/ccbox");
    std::fs::create_dir_all(profile.parent().unwrap()).unwrap();
    script("postinst", "configure");
    assert!(!profile.exists(), "an older AppArmor cannot read it");
    let switch = dir
        .path()
        .join("proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    std::fs::create_dir_all(switch.parent().unwrap()).unwrap();
    std::fs::write(switch, "1\n").unwrap();
    script("postinst", "abort-upgrade");
    assert!(!profile.exists());
    script("postinst", "configure");
    let ours = text("packaging/apparmor/ccbox");
    assert_eq!(std::fs::read_to_string(&profile).unwrap(), ours);
    script("prerm", "upgrade");
    assert!(profile.exists());
    script("prerm", "remove");
    assert!(!profile.exists());
    std::fs::write(&profile, "mine\n").unwrap();
    script("postinst", "configure");
    script("prerm", "remove");
    assert_eq!(std::fs::read_to_string(&profile).unwrap(), "mine\n");
    // What `ccbox probe` tells people to write is the same but for the place of the program.
    let words = |s: &str| {
        let code: Vec<&str> = s.lines().filter(|l| !l.starts_with('#')).collect();
        code.join(" ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let hint = text("src/session/diagnose.rs").replace("\\\\n", "\n");
    let told = hint
        .split("printf '")
        .nth(1)
        .unwrap()
        .split("' \\")
        .next()
        .unwrap();
    let told = told
        .replace("{exe}", "/usr/bin/ccbox")
        .replace("{{", "{")
        .replace("}}", "}");
    assert_eq!(words(&told), words(&ours));
}

/// What can be seen without cargo-deny, which CI runs: no other registry, no banned crate, no copyleft licence on the list.
#[test]
fn no_dependency_comes_from_elsewhere() {
    let lock = text("Cargo.lock");
    let deny = text("deny.toml").parse::<toml_edit::DocumentMut>().unwrap();
    for source in lock.lines().filter_map(|l| l.strip_prefix("source = ")) {
        let url = source.trim_matches('"').strip_prefix("registry+").unwrap();
        let allowed = deny["sources"]["allow-registry"].as_array().unwrap();
        assert!(allowed.iter().any(|a| a.as_str() == Some(url)), "{url}");
    }
    for entry in deny["bans"]["deny"].as_array().unwrap() {
        let name = entry.as_inline_table().unwrap()["crate"].as_str().unwrap();
        assert!(!lock.contains(&format!("name = \"{name}\"")), "{name}");
    }
    for licence in deny["licenses"]["allow"].as_array().unwrap() {
        let licence = licence.as_str().unwrap();
        assert!(
            !licence.contains("GPL") && !licence.contains("MPL"),
            "{licence}"
        );
    }
    // What decides about security is there once.
    for name in [
        "nix", "landlock", "rustls", "hyper", "idna", "tokio", "toml", "serde",
    ] {
        let found = lock.matches(&format!("name = \"{name}\"\n")).count();
        assert_eq!(found, 1, "{name}");
    }
}
