//! Secret read-denies (R30, semantics 22): the rows of `policy/data/secrets.txt` that exist on this host.

use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::rules::{Grant, GrantKind, Hide, Named};
use crate::host::fs_view::Kind;
use crate::policy::View;

const TABLE: &str = include_str!("../policy/data/secrets.txt");

/// Where, in ccbox's state directory, denials are recorded.
pub const DENIALS: &str = "denials";

struct Row {
    groups: &'static str,
    path: &'static str,
}

impl Row {
    fn is(&self, group: &str) -> bool {
        self.groups.split(',').any(|g| g == group)
    }
}

fn rows() -> impl Iterator<Item = Row> {
    // Paths may hold blanks (`~/Library/Application Support/…`), groups not.
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .filter_map(|l| l.split_once(char::is_whitespace))
        .map(|(groups, path)| Row {
            groups,
            path: path.trim(),
        })
}

/// The rows that hold for this run.
pub(super) fn collect(ctx: Ctx<'_>, grants: &[Grant]) -> Vec<Hide> {
    let mut out: Vec<Hide> = Vec::new();
    // The two directories the XDG base directory specification lets a user move.
    let moved: Vec<(&str, PathBuf)> = [
        ("XDG_CONFIG_HOME", ".config/"),
        ("XDG_DATA_HOME", ".local/share/"),
    ]
    .into_iter()
    .filter_map(|(var, default)| Some((default, ctx.path_var(var)?)))
    .collect();
    for row in rows().filter(|r| on(ctx, r)) {
        for path in places(ctx, row.path, &moved) {
            // Most rows name nothing here: one lstat each, a walk only for what exists.
            if !ctx.exists(&path) || (is_system(&row) && !worth_hiding(ctx, &path)) {
                continue;
            }
            let walk = ctx.walk(&path);
            let lifted = row.is("agent")
                && grants
                    .iter()
                    .any(|g| g.kind == GrantKind::Runner && walk.real.starts_with(g.path()));
            if lifted || out.iter().any(|h| h.walk.real == walk.real) {
                continue;
            }
            out.push(Hide {
                walk,
                named: Named::built_in("secrets", format!("secret \"{}\"", row.path)),
                liftable: true,
            });
        }
    }
    out.extend(other_homes(ctx));
    out.extend(records(ctx));
    out
}

/// What earlier runs were denied is no business of this one: it names places and hosts of other work (semantics 31).
fn records(ctx: Ctx<'_>) -> Option<Hide> {
    let path = ctx.host.state_dir.join(DENIALS);
    let hidden = !ctx.policy.fs.terminal_secrets_only && ctx.exists(&path);
    hidden.then(|| Hide {
        walk: ctx.walk(&path),
        named: Named::built_in("secrets", "records of earlier denials".to_owned()),
        liftable: true,
    })
}

/// Whether a path is, or lies below, one that a row of the table names, be it hidden in some run or not.
#[must_use]
pub fn is_secret(home: &Path, path: &Path) -> bool {
    rows().any(|row| match row.path.strip_prefix("~/") {
        Some(rest) => path.starts_with(home.join(rest)),
        None => row.path.starts_with('/') && path.starts_with(row.path),
    })
}

/// Rows of the home directory that name nothing yet, for an engine that decides by path (R25).
pub(super) fn absent(ctx: Ctx<'_>, grants: &[Grant]) -> Vec<Hide> {
    let lifted = |row: &Row, path: &Path| {
        let mut runners = grants.iter().filter(|g| g.kind == GrantKind::Runner);
        row.is("agent") && runners.any(|g| path.starts_with(g.path()))
    };
    rows()
        .filter(|r| on(ctx, r) && r.path.starts_with("~/"))
        .flat_map(|row| {
            let paths = places(ctx, row.path, &[]).into_iter();
            paths.map(move |path| (row.path, lifted(&row, &path), path))
        })
        .filter(|(_, lifted, path)| !lifted && !ctx.exists(path))
        .map(|(row, _, path)| Hide {
            walk: ctx.walk(&path),
            named: Named::built_in("secrets", format!("secret \"{row}\"")),
            liftable: true,
        })
        .collect()
}

/// The table row's groups against the policy.
fn on(ctx: Ctx<'_>, row: &Row) -> bool {
    let fs = &ctx.policy.fs;
    let home = if fs.terminal_secrets_only {
        row.is("terminal")
    } else {
        row.is("base") || row.is("agent") || (row.is("build") && fs.deny_build_tool_secrets)
    };
    home || row.is("etc") || row.is("proc") || (row.is("procroot") && ctx.host.uid == 0)
}

fn is_system(row: &Row) -> bool {
    row.is("etc") || row.is("proc") || row.is("procroot")
}

/// A system file the caller cannot read needs no cover, because the child has the caller's uid and no capabilities; nor does an empty
/// directory only the system fills. Every cover costs start-up time.
fn worth_hiding(ctx: Ctx<'_>, path: &Path) -> bool {
    ctx.fs.readable(path) && (ctx.kind(path) != Some(Kind::Dir) || !ctx.fs.list(path).is_empty())
}

/// Absolute paths of a row: below home as spelled, or where a variable moved it.
fn places(ctx: Ctx<'_>, text: &str, moved: &[(&str, PathBuf)]) -> Vec<PathBuf> {
    if let Some(rest) = text.strip_prefix("~/") {
        let mut out = vec![ctx.host.home_real.join(rest)];
        for (default, dir) in moved {
            if let Some(tail) = rest.strip_prefix(default) {
                out.push(dir.join(tail));
            }
        }
        return out;
    }
    if let Some(rest) = text.strip_prefix('$') {
        let (var, tail) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(value) = ctx.host.var(var) else {
            return Vec::new();
        };
        // KUBECONFIG is a list (kubectl); the others are one path, which a colon does not split wrongly often.
        let list: Vec<PathBuf> = if var == "KUBECONFIG" {
            std::env::split_paths(value).collect()
        } else {
            vec![PathBuf::from(value)]
        };
        return list
            .into_iter()
            .filter(|p| p.is_absolute())
            .map(|p| if tail.is_empty() { p } else { p.join(tail) })
            .collect();
    }
    vec![PathBuf::from(text)]
}

/// Other users' homes, `/root`, and on WSL2 the Windows ones (semantics 11, host view).
fn other_homes(ctx: Ctx<'_>) -> Vec<Hide> {
    if ctx.policy.fs.view != View::Host {
        return Vec::new();
    }
    let home = &ctx.host.home_real;
    let mut found: Vec<PathBuf> = Vec::new();
    if let Some(parent) = home.parent().filter(|p| *p != Path::new("/")) {
        // Under /home every neighbour is somebody's home. Elsewhere (a home made up for a test, /github/home in CI) only what
        // belongs to another ordinary user is.
        let of_homes = parent
            .file_name()
            .is_some_and(|n| ["home", "Users", "homes"].iter().any(|h| n == *h));
        for name in ctx.fs.list(parent) {
            let path = parent.join(&name);
            let foreign = ctx
                .fs
                .meta(&path)
                .is_some_and(|m| m.uid != ctx.host.uid && m.uid >= 1000);
            if path != *home && name != "linuxbrew" && (of_homes || foreign) {
                found.push(path);
            }
        }
    }
    found.push(PathBuf::from("/root"));
    if !found.iter().any(|p| p.starts_with("/home")) && !home.starts_with("/home") {
        for name in ctx.fs.list(Path::new("/home")) {
            if name != "linuxbrew" {
                found.push(Path::new("/home").join(name));
            }
        }
    }
    if ctx.host.wsl2 {
        for drive in ctx.fs.list(Path::new("/mnt")) {
            found.push(Path::new("/mnt").join(drive).join("Users"));
        }
    }
    found
        .into_iter()
        .filter(|p| ctx.fs.readable(p))
        .map(|p| ctx.walk(&p))
        .filter(|w| !home.starts_with(&w.real))
        .map(|walk| Hide {
            named: Named::built_in("view", "home of another user".to_owned()),
            walk,
            liftable: true,
        })
        .collect()
}

/// Whether a row of the table names a path at or below this one.
#[must_use]
pub fn holds_secret(home: &Path, dir: &Path) -> bool {
    rows().any(|row| match row.path.strip_prefix("~/") {
        Some(rest) => home.join(rest).starts_with(dir),
        None => Path::new(row.path).starts_with(dir),
    })
}

#[cfg(test)]
pub(super) fn table_paths(group: &str) -> Vec<&'static str> {
    rows().filter(|r| r.is(group)).map(|r| r.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_plain_path_with_known_groups() {
        const GROUPS: [&str; 7] = [
            "base", "terminal", "agent", "build", "etc", "proc", "procroot",
        ];
        assert!(rows().count() > 100);
        for r in rows() {
            assert!(
                r.groups.split(',').all(|g| GROUPS.contains(&g)),
                "{}",
                r.groups
            );
            assert!(
                r.path.starts_with("~/") || r.path.starts_with('/') || r.path.starts_with('$'),
                "{}",
                r.path
            );
            assert!(!r.path.contains(['*', '?', '[']), "{}", r.path);
        }
    }

    #[test]
    fn the_rows_of_r30_and_r27_are_there() {
        let all: Vec<_> = rows().map(|r| r.path).collect();
        for want in [
            "~/.ssh",
            "~/.aws",
            "~/.gnupg",
            "~/.config/gh",
            "~/Library/Keychains",
            "~/.netrc",
            "~/.docker/config.json",
            "~/.kube",
            "~/.npmrc",
            "~/.pypirc",
            "~/.cargo/credentials",
            "~/.cargo/credentials.toml",
            "~/.config/gcloud",
            "~/.azure",
            "~/.git-credentials",
            "~/.claude/.credentials.json",
            "~/.claude.json",
            "~/.codex",
            "~/.config/op",
            "~/.local/share/keyrings",
            "~/.password-store",
            "~/.vault-token",
            "~/.terraform.d",
            "~/.m2/settings.xml",
            "~/.gradle/gradle.properties",
            "~/.config/containers",
            "~/.gem/credentials",
            "~/.config/sops",
            "~/.config/rclone",
        ] {
            assert!(all.contains(&want), "{want}");
        }
        assert_eq!(
            table_paths("terminal"),
            [
                "~/.ssh",
                "~/.aws",
                "~/.gnupg",
                "~/.config/gh",
                "~/Library/Keychains"
            ]
        );
    }
}
