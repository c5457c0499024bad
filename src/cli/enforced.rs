//! The words of the enforced line: what really holds, and what does not yet (R14).

use std::ffi::OsString;

use super::engine::Chosen;
use crate::plan::Plan;
use crate::policy::NetworkMode;
use crate::session::Enforced;

/// `engine=bwrap-0.8.0 fs=mounts(not-yet=absent-names) net=proxy userns pid …`, word by word.
pub(super) fn words(plan: &Plan, chosen: &Chosen, e: &Enforced) -> Vec<String> {
    let mut out = vec![format!("engine={}", e.engine)];
    if let Chosen::None(_) = chosen {
        out.extend(["fs=none", "net=none", "env"].map(str::to_owned));
        return out;
    }
    let fs = match (plan.fs_disabled, &plan.broker) {
        (true, _) => "disabled",
        (false, Some(_)) => "mounts+broker",
        (false, None) => "mounts",
    };
    let gaps: Vec<&str> = plan.gaps.iter().map(|g| g.name).collect();
    out.push(if gaps.is_empty() {
        format!("fs={fs}")
    } else {
        format!("fs={fs}(not-yet={})", gaps.join(","))
    });
    out.push(
        match plan.network.mode {
            NetworkMode::Filtered => "net=proxy",
            NetworkMode::Off => "net=off",
            NetworkMode::Open => "net=open",
        }
        .to_owned(),
    );
    out.extend(["userns", "pid", "no-new-privs", "seccomp"].map(str::to_owned));
    out.push(match e.landlock_abi {
        0 => "landlock=none".to_owned(),
        // ABI 1 can never grant REFER: no domain is used there (semantics 24).
        1 => "landlock=none(abi-1,reopening-not-closed)".to_owned(),
        n => format!("landlock={n}"),
    });
    out.push("env".to_owned());
    out
}

/// Names dropped from the environment, once, under `-v` (semantics 21).
pub(super) fn dropped(names: &[(OsString, &'static str)]) -> String {
    let list: Vec<String> = names
        .iter()
        .map(|(name, group)| format!("{} ({group})", name.to_string_lossy()))
        .collect();
    format!("dropped from the environment: {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::plan;
    use super::*;
    use crate::broker::plan::BrokerPlan;
    use crate::plan::Gap;

    #[test]
    fn the_line_says_what_holds() {
        let mut p = plan();
        p.gaps = vec![Gap {
            name: "absent-names",
            text: String::new(),
        }];
        let bwrap = Chosen::Bwrap("/usr/bin/bwrap".into());
        let e = Enforced {
            engine: "bwrap-0.8.0".into(),
            landlock_abi: 7,
            net: None,
        };
        assert_eq!(
            words(&p, &bwrap, &e).join(" "),
            "engine=bwrap-0.8.0 fs=mounts(not-yet=absent-names) net=off userns pid no-new-privs seccomp landlock=7 env"
        );
        p.gaps.clear();
        p.broker = Some(BrokerPlan {
            trees: Vec::new(),
            exempt: Vec::new(),
            served: Vec::new(),
            rules: Vec::new(),
            exceptions: Vec::new(),
            git: true,
        });
        assert_eq!(
            words(&p, &bwrap, &e).join(" "),
            "engine=bwrap-0.8.0 fs=mounts+broker net=off userns pid no-new-privs seccomp landlock=7 env"
        );
        p.network.mode = NetworkMode::Open;
        p.fs_disabled = true;
        let old = Enforced {
            landlock_abi: 0,
            ..e.clone()
        };
        assert_eq!(
            words(&p, &bwrap, &old).join(" "),
            "engine=bwrap-0.8.0 fs=disabled net=open userns pid no-new-privs seccomp landlock=none env"
        );
        let none = Enforced {
            engine: "none".into(),
            ..e
        };
        assert_eq!(
            words(&p, &Chosen::None(String::new()), &none).join(" "),
            "engine=none fs=none net=none env"
        );
    }

    #[test]
    fn dropped_names_are_listed_with_their_group() {
        assert_eq!(
            dropped(&[("LD_PRELOAD".into(), "injection"), ("TMUX".into(), "door")]),
            "dropped from the environment: LD_PRELOAD (injection), TMUX (door)"
        );
    }
}
