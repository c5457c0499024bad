//! How much memory a private /tmp may count on: the smaller of RAM and the limit of the control group.

use std::path::{Path, PathBuf};

use super::FsView;

/// Where systemd and containers mount control groups (cgroups(7)).
const CGROUP: &str = "/sys/fs/cgroup";

/// Bytes. Falls back to 1 GiB where the machine does not say.
pub(super) fn limit(fs: &dyn FsView) -> u64 {
    let ram = ram().unwrap_or(1 << 30);
    cgroup_limit(fs).map_or(ram, |c| c.min(ram))
}

#[cfg(target_os = "linux")]
fn ram() -> Option<u64> {
    use nix::unistd::{SysconfVar, sysconf};
    let read = |v| u64::try_from(sysconf(v).ok()??).ok();
    read(SysconfVar::_PHYS_PAGES)?.checked_mul(read(SysconfVar::PAGE_SIZE)?)
}

/// Bounds nothing here: there is no private /tmp in memory.
#[cfg(not(target_os = "linux"))]
fn ram() -> Option<u64> {
    None
}

/// The tightest limit on the way from this process's control group to the root, version 2 or 1.
fn cgroup_limit(fs: &dyn FsView) -> Option<u64> {
    let groups = text(fs, Path::new("/proc/self/cgroup"))?;
    let mut tightest: Option<u64> = None;
    for line in groups.lines() {
        // hierarchy:controllers:path
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, file) = if id == "0" && controllers.is_empty() {
            (PathBuf::from(CGROUP), "memory.max")
        } else if controllers.split(',').any(|c| c == "memory") {
            (Path::new(CGROUP).join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // In a control group namespace the path may start with /.. (cgroup_namespaces(7)): nothing of it is visible then.
        if path.split('/').any(|c| c == "..") {
            continue;
        }
        let relative = Path::new(path.trim_start_matches('/'));
        for dir in relative.ancestors() {
            if let Some(bytes) =
                text(fs, &root.join(dir).join(file)).and_then(|t| t.trim().parse().ok())
            {
                tightest = Some(tightest.map_or(bytes, |t: u64| t.min(bytes)));
            }
        }
    }
    tightest
}

fn text(fs: &dyn FsView, path: &Path) -> Option<String> {
    String::from_utf8(fs.read(path)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::fs_view::FakeFs;
    use super::*;

    #[test]
    fn the_tightest_limit_up_to_the_root_counts() {
        let v2 = FakeFs::new()
            .file("/proc/self/cgroup", "0::/user.slice/app.scope\n")
            .file("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n")
            .file("/sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
        assert_eq!(cgroup_limit(&v2), Some(2_147_483_648));
        let container = FakeFs::new()
            .file("/proc/self/cgroup", "0::/\n")
            .file("/sys/fs/cgroup/memory.max", "536870912\n");
        assert_eq!(cgroup_limit(&container), Some(536_870_912));
        let v1 = FakeFs::new()
            .file(
                "/proc/self/cgroup",
                "5:cpu,memory:/a/b\n1:name=systemd:/\n0::/\n",
            )
            .file(
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "9223372036854771712\n",
            )
            .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
        assert_eq!(cgroup_limit(&v1), Some(1000));
        let hidden = FakeFs::new()
            .file("/proc/self/cgroup", "0::/../x\n")
            .file("/sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(cgroup_limit(&hidden), None);
        assert_eq!(cgroup_limit(&FakeFs::new()), None);
    }
}
