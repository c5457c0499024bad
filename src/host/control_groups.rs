//! Where this call may make a control group of its own (cgroup v2, Documentation/admin-guide/cgroup-v2.rst of the kernel): in a directory
//! that is delegated to the caller and hands the wanted controllers to its children.

use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// What of the machine decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlGroups {
    /// The caller's own group.
    own: PathBuf,
    /// Directories that may hold a group for a run, the nearest first, with the controllers they hand on.
    places: Vec<(PathBuf, Vec<String>)>,
}

/// A place for a group, and the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegated {
    /// Where the group is made.
    pub parent: PathBuf,
    /// The caller's own group.
    pub own: PathBuf,
}

impl ControlGroups {
    /// Looks at this machine.
    #[must_use]
    pub fn look() -> Self {
        let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
        let mounts = read("/proc/self/mountinfo");
        let groups = read("/proc/self/cgroup");
        own_group(&mounts, &groups).map_or_else(Self::default, |(own, top)| Self::around(own, &top))
    }

    /// The group itself, whose processes are the caller's shell and more, and the one above it.
    fn around(own: PathBuf, top: &Path) -> Self {
        let places = own
            .ancestors()
            .take(2)
            .filter(|dir| dir.starts_with(top))
            .filter_map(|dir| Some((dir.to_path_buf(), handed_on(dir)?)))
            .collect();
        Self { own, places }
    }

    /// A place that hands these controllers on.
    #[must_use]
    pub fn with(&self, controllers: &[&str]) -> Option<Delegated> {
        let has = |names: &[String]| controllers.iter().all(|c| names.iter().any(|n| n == c));
        let (parent, _) = self.places.iter().find(|(_, names)| has(names))?;
        Some(Delegated {
            parent: parent.clone(),
            own: self.own.clone(),
        })
    }
}

/// The controllers a directory hands to its children, if this process may make one there and move processes into it.
fn handed_on(dir: &Path) -> Option<Vec<String>> {
    let may = |path: &Path, how| access(path, how).is_ok();
    let writable = may(dir, AccessFlags::W_OK | AccessFlags::X_OK)
        && may(&dir.join("cgroup.procs"), AccessFlags::W_OK);
    let names = std::fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
    writable.then(|| names.split_whitespace().map(str::to_owned).collect())
}

/// The caller's group in the mounted hierarchy, and where that is mounted.
fn own_group(mounts: &str, groups: &str) -> Option<(PathBuf, PathBuf)> {
    let path = groups.lines().find_map(|l| l.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        // Outside of what is mounted (a group that was entered from outside has `..` in it).
        let plain = below
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        plain.then(|| (Path::new(point).join(below), PathBuf::from(point)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n\
        31 23 0:27 / /proc rw - proc proc rw\n";

    #[test]
    fn the_own_group_is_found_in_the_mounted_hierarchy() {
        let hybrid = "42 32 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let part = "30 23 0:26 /a/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (mounts, groups, wanted) in [
            (
                MOUNTS,
                "0::/user.slice/x.scope\n",
                Some("/sys/fs/cgroup/user.slice/x.scope"),
            ),
            (MOUNTS, "0::/\n", Some("/sys/fs/cgroup")),
            (
                hybrid,
                "4:memory:/y\n0::/a\n",
                Some("/sys/fs/cgroup/unified/a"),
            ),
            (part, "0::/a/b/c\n", Some("/sys/fs/cgroup/c")),
            (part, "0::/z\n", None),
            (MOUNTS, "0::/../x\n", None),
            (MOUNTS, "4:memory:/y\n", None),
            ("31 23 0:27 / /proc rw - proc proc rw\n", "0::/\n", None),
        ] {
            let found = own_group(mounts, groups).map(|(own, _)| own);
            assert_eq!(found.as_deref(), wanted.map(Path::new), "{groups}");
        }
    }

    #[test]
    fn the_nearest_directory_that_hands_everything_on() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, controllers: &str| {
            let group = dir.path().join(name);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("cgroup.procs"), "").unwrap();
            std::fs::write(group.join("cgroup.subtree_control"), controllers).unwrap();
        };
        put("", "cpu memory pids\n");
        put("app", "memory pids\n");
        put("app/own", "\n");
        let found = ControlGroups::around(dir.path().join("app/own"), dir.path());
        let parent = |c: &[&str]| found.with(c).map(|d| d.parent);
        assert_eq!(parent(&["memory", "pids"]), Some(dir.path().join("app")));
        assert_eq!(parent(&[]), Some(dir.path().join("app/own")));
        // Two levels up is somebody else's.
        assert_eq!(parent(&["cpu"]), None);
        // Nothing above what is mounted.
        let top = ControlGroups::around(dir.path().join("app"), &dir.path().join("app"));
        assert_eq!(top.with(&["cpu"]), None);
    }
}
