//! What the requirements say about a path, written without a look at the planner: on strings, with a matcher of its own.

use super::model::{Access, DIRS, FILES, HOME, SECRETS, Spec, TMP, below, names, pattern_covers};

const AGENT: [&str; 9] = [
    "settings.json",
    "settings.local.json",
    "skills",
    "agents",
    "commands",
    "hooks",
    "workflows",
    "scheduled_tasks.json",
    ".mcp.json",
];
const START_UP: [&str; 13] = [
    ".mcp.json",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".gitconfig",
];
const GIT: [&str; 5] = [
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "commondir",
];
/// Of those, what the project has and git itself never changes.
const GIT_THERE: [&str; 1] = ["hooks"];
const CLOSED: [&str; 5] = [
    "/users",
    "/volumes",
    "/private/tmp",
    "/private/var/tmp",
    "/private/var/folders",
];
const PROGRAMS: [&str; 2] = ["/usr/bin/security", "/bin/launchctl"];
const SCRIPTING: [&str; 2] = ["/usr/bin/osascript", "/usr/bin/open"];

/// Names that are closed wherever a profile can say so, as paths below a directory.
pub(super) fn closed_names() -> Vec<String> {
    let agent = AGENT[..8].iter().map(|a| format!(".claude/{a}"));
    let git = GIT.iter().map(|g| format!(".git/{g}"));
    let modules = GIT.iter().map(|g| format!(".git/modules/a/modules/b/{g}"));
    let plain = START_UP.iter().map(|s| (*s).to_owned());
    let top = [".git", ".vscode", ".idea", "HEAD", "objects", "refs"].map(str::to_owned);
    agent
        .chain(git)
        .chain(modules)
        .chain(plain)
        .chain(top)
        .collect()
}

/// Everything below is about paths in small letters.
fn small(path: &str) -> String {
    path.to_lowercase()
}

fn in_home(name: &str) -> String {
    small(&format!("{HOME}/{name}"))
}

fn in_tmp(p: &str) -> bool {
    below(p, &small(TMP))
}

/// The path stands on the machine before the run.
fn is_there(p: &str) -> bool {
    let all = DIRS.iter().chain(&FILES).map(|d| small(d));
    let git = ["objects", "refs", "hooks", "config", "head"]
        .map(|g| format!("/users/dev/w/proj/.git/{g}"));
    all.chain(git)
        .chain([small(TMP)])
        .any(|d| below(&d, p) && d != small(TMP) || d == p && !in_tmp(p))
        || below("/private/var/folders/q1/x0/t", p)
}

impl Spec {
    fn places(&self) -> Vec<String> {
        let written = |a: &Access| matches!(a, Access::Write | Access::Runner);
        let roots = self.grants.iter().filter(|(_, a)| written(a));
        let roots: Vec<String> = roots.map(|(p, _)| small(p)).collect();
        let above = ["/users/dev/w/proj", "/users/dev/w"].map(str::to_owned);
        let above = above
            .into_iter()
            .filter(|up| self.granted(up) && roots.iter().any(|r| below(up, r)));
        roots.iter().cloned().chain(above).collect()
    }

    /// Never written, whatever is granted.
    fn never(&self, p: &str) -> bool {
        let n = names(p);
        let git = (0..n.len()).filter(|i| n[*i] == ".git").any(|i| {
            let rest = &n[i + 1..];
            let at = |rest: &[&str]| {
                let rest = rest.join("/");
                GIT.iter()
                    .any(|g| rest == *g || rest.starts_with(&format!("{g}/")))
            };
            rest.is_empty()
                || at(rest)
                || rest[0] == "modules" && (1..rest.len()).any(|j| at(&rest[j..]))
        });
        let own = [
            ".local/state/ccbox",
            ".config/ccbox",
            ".claude",
            ".claude.json",
        ];
        let runners = self.grants.iter().filter(|(_, a)| *a == Access::Runner);
        let mut kept = runners.flat_map(|(r, _)| AGENT.map(|a| small(&format!("{r}/{a}"))));
        let at_top = |top: &String| {
            let named = |x: &str| below(p, &format!("{top}/{x}"));
            [".vscode", ".idea"].iter().any(|x| named(x))
                || top != "/users/dev/w/proj/.git"
                    && ["head", "objects", "refs"].iter().any(|x| named(x))
        };
        git || START_UP.iter().any(|name| pattern_covers(name, p))
            || AGENT[..8]
                .iter()
                .any(|a| pattern_covers(&format!(".claude/{a}"), p))
            || own.iter().any(|o| below(p, &in_home(o)))
            || kept.any(|k| below(p, &k))
            || self.protected.iter().any(|q| below(p, &small(q)))
            || self.patterns.iter().any(|q| pattern_covers(q, p))
            || self.hidden_name(p)
            || self.places().iter().any(at_top)
    }

    /// A pattern of `deny_read`: deeper than any path (semantics 5).
    fn hidden_name(&self, p: &str) -> bool {
        self.hidden_names.iter().any(|q| pattern_covers(q, p))
    }

    fn deepest(&self, p: &str, want: impl Fn(Access) -> bool) -> Option<(usize, Access)> {
        let rank = |a: Access| match a {
            Access::ReadOnly => 3,
            Access::Runner => 2,
            Access::Write => 1,
            Access::Read => 0,
        };
        self.grants
            .iter()
            .filter(|(g, a)| want(*a) && below(p, &small(g)))
            .map(|(g, a)| (names(g).len(), *a))
            .max_by_key(|(depth, a)| (*depth, rank(*a)))
    }

    /// Deepest entry wins; a secret of ccbox's own is lifted by a grant of the same path.
    pub(super) fn hidden(&self, p: &str) -> bool {
        let grant = self.deepest(p, |_| true).map_or(0, |(d, _)| d);
        let hides = self.hides.iter().map(|h| (small(h), false));
        let secrets = SECRETS.iter().map(|s| (in_home(s), true));
        hides.chain(secrets).any(|(h, liftable)| {
            below(p, &h) && (names(&h).len() > grant || names(&h).len() == grant && !liftable)
        })
    }

    fn in_view(&self, p: &str) -> bool {
        self.host_view || self.deepest(p, |_| true).is_some() || !CLOSED.iter().any(|c| below(p, c))
    }

    pub(super) fn readable(&self, p: &str) -> bool {
        !self.hidden(p) && !self.hidden_name(p) && (in_tmp(p) || self.in_view(p))
    }

    /// A closed directory on the way to something open is listed.
    pub(super) fn listed(&self, p: &str) -> bool {
        // What the rules about paths say: a pattern that hides what is open there changes nothing above.
        let open = |g: &String| !self.hidden(g);
        let grants = self.grants.iter().map(|(g, _)| small(g)).filter(open);
        let mut open = grants.chain([small(TMP), in_home("_")]);
        !self.in_view(&format!("{p}/x"))
            && open.any(|g| g != p && below(&g, p))
            && !self.hidden(p)
            && !self.hidden_name(p)
    }

    /// What the grants say, before what is never written.
    fn granted(&self, p: &str) -> bool {
        if in_tmp(p) {
            return true;
        }
        !self.hidden(p)
            && match self.deepest(p, |a| a != Access::Read) {
                Some((_, Access::Runner)) => true,
                Some((_, Access::Write)) => !self.read_only,
                _ => false,
            }
    }

    pub(super) fn writable(&self, p: &str) -> bool {
        let lifted = pattern_covers("node_modules/**/*.key", p);
        let soft = self.soft && pattern_covers("*.key", p) && !lifted;
        self.granted(p) && !self.never(p) && !soft
    }

    /// Renamed, it would carry a rule's path away.
    fn pinned(&self, p: &str) -> bool {
        let grants = self.grants.iter().map(|(g, _)| small(g));
        let secrets = SECRETS.iter().map(|s| in_home(s));
        let own = [".local/state/ccbox", ".config/ccbox", ".claude"].map(in_home);
        let patterns = self.patterns.iter().chain(&self.hidden_names);
        let fixed = patterns.filter_map(|q| match q.as_str() {
            "./sub/*/secret" => Some("/users/dev/w/sub"),
            "/Users/dev/w/*/top" => Some("/users/dev/w"),
            _ => None,
        });
        let places = self.places().into_iter();
        let places = places.flat_map(|t| [format!("{t}/.claude"), format!("{t}/.git/info")]);
        grants
            .chain(self.hides.iter().chain(&self.protected).map(|h| small(h)))
            .chain(secrets)
            .chain(own)
            .chain(fixed.map(str::to_owned))
            .chain(places)
            .chain([small(TMP), "/users/dev/w/proj/.git".to_owned()])
            .any(|t| below(&t, p))
    }

    pub(super) fn unlinkable(&self, p: &str) -> bool {
        self.writable(p) && !self.pinned(p)
    }

    /// Directories above a denied path are not made where they are absent, and not replaced where they stand.
    pub(super) fn creatable(&self, p: &str) -> bool {
        let absent = self
            .protected
            .iter()
            .map(|q| small(q))
            .filter(|q| !is_there(q));
        let agent = self.places().into_iter().map(|t| format!("{t}/.claude/x"));
        let mut ways = absent.chain(agent);
        let unmade = !is_there(p) && ways.any(|q| q != p && below(&q, p));
        self.writable(p) && !unmade && !(is_there(p) && self.pinned(p))
    }

    /// A second name of a file that may not be written could be written by that name.
    pub(super) fn linkable(&self, p: &str) -> bool {
        self.writable(p)
    }

    /// A copy under another name.
    pub(super) fn clonable(&self, p: &str) -> bool {
        self.readable(p) && !self.never(p)
    }

    pub(super) fn executable(&self, p: &str) -> bool {
        if PROGRAMS.contains(&p) || SCRIPTING.contains(&p) && !self.events {
            return false;
        }
        let Some(roots) = &self.exec else {
            return self.readable(p);
        };
        let protected = self
            .protected
            .iter()
            .map(|q| small(q))
            .filter(|q| is_there(q));
        let git = GIT_THERE.map(|g| format!("/users/dev/w/proj/.git/{g}"));
        // A file has nothing below it.
        let is_file = |q: &String| FILES.iter().any(|f| small(f) == *q);
        let kept = protected
            .chain(git)
            .any(|q| below(p, &q) && (p == q || !is_file(&q)));
        let granted = roots.iter().any(|r| below(p, &small(r)));
        self.readable(p) && (granted || kept || !self.granted(p))
    }
}
