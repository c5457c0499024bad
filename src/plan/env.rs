//! The child's environment, without what the session adds (proxy variables, `CCBOX_*`).

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::context::Ctx;
use super::tree::{Node, Shown, Tree};
use crate::policy::environment::Scrubbed;

/// Scrubbed variables plus the places ccbox moved: temporary files, caches, working directory.
pub(super) fn child(
    ctx: Ctx<'_>,
    scrubbed: Scrubbed,
    tree: Option<&Tree>,
    caches: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let mut env = scrubbed.vars;
    if let Some(tree) = tree {
        let tmp = temp_dir(tree);
        set(&mut env, "TMPDIR", OsStr::new(tmp));
        // Set only where the caller has them: the names Windows-born tools and old Pythons read.
        for name in ["TMP", "TEMP", "TEMPDIR"] {
            replace(&mut env, name, OsStr::new(tmp));
        }
        // zsh writes here-documents to $TMPPREFIX* (zshparam(1)).
        replace(&mut env, "TMPPREFIX", OsStr::new(&format!("{tmp}/zsh")));
        for (name, value) in caches {
            set(&mut env, name, value);
        }
    }
    if ctx.policy.workdir.is_some() {
        set(&mut env, "PWD", ctx.cwd().as_os_str());
        env.retain(|(k, _)| k != "OLDPWD");
    }
    env
}

/// The private /tmp; /var/tmp where a grant put the host's /tmp there read-only.
fn temp_dir(tree: &Tree) -> &'static str {
    let usable = |p: &str| match tree.shown(Path::new(p)) {
        Shown::Host { rw, .. } => rw,
        Shown::Private => matches!(
            tree.provider(Path::new(p)),
            Some((_, Node::Tmpfs { ro: false, .. }))
        ),
        Shown::Cache { .. } | Shown::Hidden | Shown::Kernel => false,
    };
    ["/tmp", "/var/tmp", "/dev/shm"]
        .into_iter()
        .find(|p| usable(p))
        .unwrap_or("/dev/shm")
}

fn set(env: &mut Vec<(OsString, OsString)>, name: impl AsRef<OsStr>, value: &OsStr) {
    let name = name.as_ref();
    if !replace(env, name, value) {
        env.push((name.to_os_string(), value.to_os_string()));
    }
}

fn replace(env: &mut [(OsString, OsString)], name: impl AsRef<OsStr>, value: &OsStr) -> bool {
    let mut found = false;
    for (_, v) in env.iter_mut().filter(|(k, _)| k == name.as_ref()) {
        value.clone_into(v);
        found = true;
    }
    found
}
