//! The control group of a run: made before anything of the run exists, left by ccbox itself, removed when the run is over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::GroupPlan;

/// How often an emptied group is tried to be removed: its last processes may still be on their way out.
const TRIES: u32 = 50;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// What the name of a group starts with; the number of the process that made it follows.
const PREFIX: &str = "ccbox-";

/// A group, removed when dropped.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    own: PathBuf,
}

impl Group {
    /// Makes it, with its limits set, and moves this process into it, so that what is forked from here on is born there.
    pub(super) fn enter(plan: &GroupPlan) -> io::Result<Self> {
        sweep(&plan.parent);
        let dir = plan.parent.join(format!("{PREFIX}{}", std::process::id()));
        // Of an earlier process with this number.
        let _ = fs::remove_dir(&dir);
        fs::create_dir(&dir)?;
        let group = Self {
            dir,
            own: plan.own.clone(),
        };
        for (file, value) in &plan.files {
            let file = group.dir.join(file);
            match fs::write(&file, value) {
                // Without accounting of swap there is none to limit.
                Err(e)
                    if e.kind() == io::ErrorKind::NotFound && file.ends_with("memory.swap.max") => {
                }
                other => other?,
            }
        }
        // 0 is the process that writes.
        fs::write(group.dir.join("cgroup.procs"), "0")?;
        Ok(group)
    }

    /// Moves this process back: the limits are the command's.
    pub(super) fn leave(&self) -> io::Result<()> {
        fs::write(self.own.join("cgroup.procs"), "0")
    }

    /// The kernel has killed for want of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.dir.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| {
            let count = line.strip_prefix("oom_kill ");
            count.is_some_and(|n| n.trim() != "0")
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only where the run failed before that is this process still in it.
        let _ = self.leave();
        for _ in 0..TRIES {
            match fs::remove_dir(&self.dir) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
    }
}

/// Removes what runs that were killed have left: empty groups whose maker is gone.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
        let Some(pid) = maker.and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dir: &Path) -> GroupPlan {
        fs::write(dir.join("cgroup.procs"), "").unwrap();
        GroupPlan {
            parent: dir.to_path_buf(),
            own: dir.to_path_buf(),
            files: Vec::new(),
        }
    }

    #[test]
    fn the_files_are_written_and_a_missing_one_is_an_error() {
        let keep = tempfile::tempdir().unwrap();
        let mut plan = plan(keep.path());
        plan.files = vec![("pids.max", "7".to_owned())];
        let group = Group::enter(&plan).unwrap();
        let read = |name: &str| fs::read_to_string(group.dir.join(name)).unwrap();
        assert_eq!(
            (read("pids.max").as_str(), read("cgroup.procs").as_str()),
            ("7", "0")
        );
        group.leave().unwrap();
        assert_eq!(
            fs::read_to_string(keep.path().join("cgroup.procs")).unwrap(),
            "0"
        );
        assert!(!group.ran_out_of_memory());
        fs::write(group.dir.join("memory.events"), "oom 1\noom_kill 0\n").unwrap();
        assert!(!group.ran_out_of_memory());
        fs::write(group.dir.join("memory.events"), "oom 1\noom_kill 2\n").unwrap();
        assert!(group.ran_out_of_memory());
    }

    /// The kernel's own files, where this user may make a group: the process is in it, then is not, and nothing is left.
    #[test]
    fn a_real_group_is_entered_left_and_removed() {
        let own = || fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let line = |text: &str| {
            text.lines()
                .find(|l| l.starts_with("0::"))
                .map(str::to_owned)
        };
        let before = line(&own());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some(place) = crate::host::control_groups::ControlGroups::look().with(&[]) else {
            let v2 = mounts.lines().any(|l| l.contains(" - cgroup2 "));
            assert!(
                !v2 || !nix::unistd::getuid().is_root() || before.is_none(),
                "{mounts}"
            );
            return;
        };
        let plan = GroupPlan {
            parent: place.parent.clone(),
            own: place.own,
            files: Vec::new(),
        };
        let group = Group::enter(&plan).unwrap();
        let inside = line(&own()).unwrap();
        assert!(
            inside.ends_with(&format!("ccbox-{}", std::process::id())),
            "{inside}"
        );
        let dir = group.dir.clone();
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        group.leave().unwrap();
        assert_eq!(line(&own()), before);
        let born = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
        assert_eq!(born.trim(), child.id().to_string());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(group);
        assert!(!dir.exists());
    }

    #[test]
    fn what_killed_runs_have_left_is_swept() {
        let keep = tempfile::tempdir().unwrap();
        for name in ["ccbox-4194999", "ccbox-1", "ccbox-x", "other-4194999"] {
            fs::create_dir(keep.path().join(name)).unwrap();
        }
        sweep(keep.path());
        let mut left: Vec<_> = fs::read_dir(keep.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["ccbox-1", "ccbox-x", "other-4194999"]);
    }
}
