//! What ccbox adds to the child's environment: its own marks, the proxies, the private `$TMPDIR`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

type Vars = Vec<(OsString, OsString)>;

/// Variables to add and names to remove, from the room that serves the proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) set: Vars,
    pub(super) remove: Vec<OsString>,
}

/// Facts of the run the child may know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) backend: &'a str,
    pub(super) session_id: &'a str,
    pub(super) cwd: &'a Path,
    /// The private /tmp, where there is one; the caller's `$TMPDIR` otherwise (semantics 11, 16).
    pub(super) tmpdir: Option<&'a Path>,
}

/// The final environment. Nothing of the caller's `CCBOX_*` stays (semantics 19).
pub(super) fn finish(mut env: Vars, changes: Changes, marks: Marks<'_>) -> Vars {
    use std::os::unix::ffi::OsStrExt;
    env.retain(|(k, _)| {
        !k.as_bytes().starts_with(b"CCBOX_") && k != "CCBOX" && !changes.remove.contains(k)
    });
    for (k, v) in changes.set {
        put(&mut env, &k, &v);
    }
    if let Some(tmp) = marks.tmpdir {
        put(&mut env, OsStr::new("TMPDIR"), tmp.as_os_str());
    }
    put(&mut env, OsStr::new("PWD"), marks.cwd.as_os_str());
    for (k, v) in [
        ("CCBOX", "1"),
        ("CCBOX_BACKEND", marks.backend),
        ("CCBOX_SESSION_ID", marks.session_id),
    ] {
        put(&mut env, OsStr::new(k), OsStr::new(v));
    }
    env
}

/// Sets one variable in its place; later duplicates of the name go.
fn put(env: &mut Vars, name: &OsStr, value: &OsStr) {
    let mut seen = false;
    env.retain_mut(|(k, v)| {
        if k != name {
            return true;
        }
        if seen {
            return false;
        }
        seen = true;
        value.clone_into(v);
        true
    });
    if !seen {
        env.push((name.to_owned(), value.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Vars {
        pairs.iter().map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn marks_replace_what_the_caller_had() {
        let caller = vars(&[
            ("PATH", "/bin"),
            ("CCBOX_SPEC", "/evil"),
            ("CCBOX", "0"),
            ("PWD", "/old"),
            ("PWD", "/older"),
            ("https_proxy", "http://corp"),
            ("YARN_NO_PROXY", "x"),
            ("TMPDIR", "/mine"),
        ]);
        let changes = Changes {
            set: vars(&[("https_proxy", "http://127.0.0.1:3128")]),
            remove: vec!["YARN_NO_PROXY".into()],
        };
        let marks = Marks {
            backend: "native",
            session_id: "s",
            cwd: Path::new("/w"),
            tmpdir: Some(Path::new("/tmp")),
        };
        assert_eq!(
            finish(caller, changes, marks),
            vars(&[
                ("PATH", "/bin"),
                ("PWD", "/w"),
                ("https_proxy", "http://127.0.0.1:3128"),
                ("TMPDIR", "/tmp"),
                ("CCBOX", "1"),
                ("CCBOX_BACKEND", "native"),
                ("CCBOX_SESSION_ID", "s"),
            ])
        );
    }

    #[test]
    fn without_a_private_tmp_the_callers_tmpdir_stays() {
        let marks = Marks {
            backend: "none",
            session_id: "s",
            cwd: Path::new("/w"),
            tmpdir: None,
        };
        let env = finish(vars(&[("TMPDIR", "/mine")]), Changes::default(), marks);
        assert!(env.contains(&("TMPDIR".into(), "/mine".into())));
    }
}
