//! A copy of the caller's known_hosts inside: git over ssh needs it, and `~/.ssh` itself is hidden (semantics 13).

use std::path::{Path, PathBuf};

use crate::host::{FsView, HostFacts, NEST_MARK};
use crate::plan::{Mount, Plan};
use crate::policy::NetworkMode;

/// Beside the mark on the private /run.
const GUEST: &str = "/run/ccbox.known_hosts";

/// Adds the copy to the plan where hosts can be reached, and says where it stands.
pub(super) fn show(plan: &mut Plan, host: &HostFacts, fs: &dyn FsView) -> Option<PathBuf> {
    if plan.network.mode != NetworkMode::Filtered {
        return None;
    }
    let marked = |m: &Mount| matches!(m, Mount::File { dst, .. } if dst == Path::new(NEST_MARK));
    // No mark: /run is not private in this plan, and nothing is put into the host's.
    let mark = plan.mounts.iter().position(marked)?;
    let content = fs.read(&host.home.join(".ssh/known_hosts"))?;
    plan.mounts.insert(
        mark + 1,
        Mount::File {
            dst: GUEST.into(),
            content,
            mode: 0o444,
        },
    );
    Some(GUEST.into())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{host, plan};
    use super::*;
    use crate::host::fs_view::FakeFs;

    fn shown(mode: NetworkMode, private_run: bool, fs: &FakeFs) -> (Option<PathBuf>, usize) {
        let mut p = plan();
        p.network.mode = mode;
        if private_run {
            p.mounts = vec![
                Mount::Tmpfs {
                    dst: "/run".into(),
                    mode: 0o755,
                    size: None,
                },
                Mount::File {
                    dst: NEST_MARK.into(),
                    content: Vec::new(),
                    mode: 0o444,
                },
                Mount::RemountRo { dst: "/run".into() },
            ];
        }
        let found = show(&mut p, &host(), fs);
        let at = p
            .mounts
            .iter()
            .position(|m| matches!(m, Mount::File { dst, .. } if dst == Path::new(GUEST)));
        (found, at.unwrap_or(0))
    }

    #[test]
    fn it_stands_beside_the_mark_before_run_is_closed() {
        let fs = FakeFs::new().file("/home/me/.ssh/known_hosts", "host key\n");
        let there = Some(PathBuf::from(GUEST));
        assert_eq!(shown(NetworkMode::Filtered, true, &fs), (there, 2));
        assert_eq!(shown(NetworkMode::Off, true, &fs), (None, 0));
        assert_eq!(shown(NetworkMode::Filtered, false, &fs), (None, 0));
        assert_eq!(
            shown(NetworkMode::Filtered, true, &FakeFs::new()),
            (None, 0)
        );
    }

    #[test]
    fn the_mark_is_the_planners() {
        assert_eq!(NEST_MARK, crate::plan::NESTING_MARK);
    }
}
