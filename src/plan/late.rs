//! What a rule hides as soon as something is there: `check` answers for a name, whether or not it names something yet.

use std::path::{Path, PathBuf};

use super::check::{self, Answer};
use super::context::Ctx;
use super::paths::{below, within};
use super::rules::{Grant, Hide, ReadVerdict};
use super::{Plan, place, resolve, secrets};
use crate::host::{FsView, HostFacts};
use crate::policy::Policy;

/// The rule that hides `path`, of those whose object does not exist. `plan` is the policy's.
#[must_use]
pub fn hides(
    policy: &Policy,
    host: &HostFacts,
    fs: &dyn FsView,
    plan: &Plan,
    path: &Path,
) -> Option<Answer> {
    if plan.fs_disabled {
        return None;
    }
    let ctx = Ctx { policy, host, fs };
    let on_host = check::shown_of_host(plan, path)?;
    // Most of ccbox's own rows name nothing on a machine, and a plan leaves those out.
    let (mut rules, _) = resolve::collect(ctx, &mut Vec::new()).ok()?;
    let own = secrets::absent(ctx, &rules.grants);
    rules.hides.extend(own);
    let through = |g: &&Grant| g.guest.as_ref().is_some_and(|at| path.starts_with(at));
    let via = rules.grants.iter().find(through);
    let ReadVerdict::Hidden(hide) = rules.read_through(&on_host, via) else {
        return None;
    };
    if hide.walk.kind.is_some() || lifted(ctx, hide, &on_host) {
        return None;
    }
    let later = if closed(ctx, plan, path, hide) {
        ""
    } else {
        "; nothing is there, and what comes during a run is hidden from the next one on"
    };
    Some(Answer {
        allowed: false,
        rule: format!(
            "{} ({}){later}",
            hide.named.words,
            place(&hide.named.origin)
        ),
        origin: Some(hide.named.origin.clone()),
    })
}

/// An entry of `allow_read` that names nothing yet is no grant of this run, but will be one as soon as the rule has something to hide.
fn lifted(ctx: Ctx<'_>, hide: &Hide, path: &Path) -> bool {
    let shown = ctx.policy.fs.allow_read.iter();
    let mut shown = shown.filter_map(|e| Some(ctx.walk(e.value.exact()?).real));
    let hidden = &hide.walk.real;
    shown.any(|s| within(path, &s) && (below(&s, hidden) || hide.liftable && s == *hidden))
}

/// What the host makes during the run stays closed: by its name, or because it has no grant of the read floor.
fn closed(ctx: Ctx<'_>, plan: &Plan, path: &Path, hide: &Hide) -> bool {
    let reads = plan.broker.as_ref().and_then(|b| b.reads.as_ref());
    let by_name = reads.filter(|r| r.decides).is_some_and(|reads| {
        use std::os::unix::ffi::OsStrExt;
        reads.denies(path.as_os_str().as_bytes()).is_some()
    });
    let floor = &plan.read_floor;
    let real = &hide.walk.real;
    // Where the first name that does not exist would be made.
    let made_in: Option<PathBuf> = real
        .ancestors()
        .skip(1)
        .find(|a| ctx.exists(a))
        .map(Path::to_path_buf);
    by_name || floor.closed.contains(real) || made_in.is_some_and(|at| floor.above.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{
        bind, debian, dev, entry, facts, planned, terminal, without_broker,
    };

    #[test]
    fn a_name_is_denied_whether_or_not_something_is_there() {
        const OWN: &str = "secret \"~/.aws\" (built-in secrets)";
        let mut p = dev();
        p.fs.deny_read.extend(
            [
                "/home/me/proj/late",
                "/home/me/proj/a/late",
                "/home/me/late",
                "/home/me/gone/late",
                "/home/me/open",
            ]
            .map(entry),
        );
        p.fs.allow_read
            .extend(["/home/me/.kube", "/home/me/open/in"].map(entry));
        let (host, fs) = (facts(), debian());
        let plan = planned(&p, &host, &fs);
        for (path, wanted) in [
            ("/home/me/.aws", Some(OWN)),
            ("/home/me/.aws/credentials", Some(OWN)),
            ("/home/me/late", Some("deny_read \"/home/me/late\" (")),
            ("/home/me/late/x", Some("deny_read \"/home/me/late\" (")),
            (
                "/home/me/gone/late",
                Some("deny_read \"/home/me/gone/late\" ("),
            ),
            ("/home/me/gone", None),
            (
                "/home/me/proj/late/x",
                Some("deny_read \"/home/me/proj/late\" ("),
            ),
            ("/home/me/proj/a", None),
            ("/home/me/other", None),
            // Lifted, at the same depth a row of ccbox's, and deeper.
            ("/home/me/.kube/config", None),
            ("/home/me/open/in/x", None),
            ("/home/me/open/x", Some("deny_read \"/home/me/open\" (")),
            // What is there is the mounts' to answer for.
            ("/home/me/.npmrc", None),
        ] {
            let found = hides(&p, &host, &fs, &plan, Path::new(path));
            let rule = found.as_ref().map(|a| a.rule.as_str());
            match wanted {
                None => assert_eq!(rule, None, "{path}"),
                Some(words) => {
                    let rule = rule.unwrap_or_else(|| panic!("{path}"));
                    // The floor of this home closes what comes.
                    assert!(
                        rule.starts_with(words) && !rule.contains("next one"),
                        "{rule}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_nothing_closes_during_the_run_is_said() {
        let (host, fs) = (facts(), debian());
        let p = terminal("/home/me");
        let plan = planned(&p, &host, &fs);
        let found = hides(&p, &host, &fs, &plan, Path::new("/home/me/.aws/x")).unwrap();
        assert!(
            !found.allowed && found.rule.ends_with("hidden from the next one on"),
            "{found:?}"
        );
        // A writable tree without a broker.
        let mut p = dev();
        p.fs.deny_read.push(entry("/home/me/proj/late"));
        let host = without_broker();
        let plan = planned(&p, &host, &fs);
        let found = hides(&p, &host, &fs, &plan, Path::new("/home/me/proj/late")).unwrap();
        assert!(
            found.rule.ends_with("hidden from the next one on"),
            "{found:?}"
        );
        // Shown at another path, the rule is about the host's.
        let mut p = dev();
        p.fs.binds.push(bind("/home/me/proj", true));
        p.fs.deny_read.push(entry("/home/me/proj/late"));
        let plan = planned(&p, &facts(), &fs);
        assert!(hides(&p, &facts(), &fs, &plan, Path::new("/home/me/proj/late")).is_some());
        p.fs.disabled = true;
        let plan = planned(&p, &facts(), &fs);
        assert_eq!(
            hides(&p, &facts(), &fs, &plan, Path::new("/home/me/proj/late")),
            None
        );
    }
}
