//! The words of the enforced line: what really holds, and what does not yet (R14).

use std::ffi::OsString;

use super::engine::Chosen;
use crate::backend::NetSetup;
use crate::plan::Plan;
use crate::policy::NetworkMode;
use crate::session::{Brokered, Enforced, Reads};

/// `engine=bwrap-0.8.0 fs=mounts(not-yet=absent-names) net=proxy userns pid …`, word by word.
pub(super) fn words(plan: &Plan, chosen: &Chosen, e: &Enforced) -> Vec<String> {
    let mut out = vec![format!("engine={}", e.engine)];
    if let Chosen::None(_) = chosen {
        out.extend(["fs=none", "net=none", "env"].map(str::to_owned));
        return out;
    }
    let net = match plan.network.mode {
        NetworkMode::Filtered => "net=proxy",
        NetworkMode::Off => "net=off",
        NetworkMode::Open => "net=open",
    };
    if *chosen == Chosen::Seatbelt {
        let fs = if plan.fs_disabled {
            "fs=disabled"
        } else {
            "fs=profile"
        };
        out.extend([fs, net, "env"].map(str::to_owned));
        return out;
    }
    let alone = matches!(chosen, Chosen::Landlock(_));
    let fs = match (plan.fs_disabled, alone) {
        (true, _) => "disabled",
        (false, true) => "allow-list",
        (false, false) => "mounts",
    };
    let broker = match e.broker {
        None => "",
        Some(Brokered {
            uninterrupted: true,
        }) => "+broker",
        // Before Linux 5.19 a signal may end a call that is being answered.
        Some(Brokered {
            uninterrupted: false,
        }) => "+broker(interruptible)",
    };
    let gaps: Vec<&str> = plan.gaps.iter().map(|g| g.name).collect();
    out.push(if gaps.is_empty() {
        format!("fs={fs}{broker}")
    } else {
        format!("fs={fs}{broker}(not-yet={})", gaps.join(","))
    });
    out.push(match e.net {
        _ if plan.network.catch.is_empty() => net.to_owned(),
        Some(NetSetup::PreStage) => format!("{net}+caught"),
        // There is nobody in the command's network who could make the sockets.
        Some(NetSetup::Inner | NetSetup::Host) | None => format!("{net}(not-caught)"),
    });
    if !alone {
        out.extend(["userns", "pid"].map(str::to_owned));
    }
    out.extend(["no-new-privs", "seccomp"].map(str::to_owned));
    out.push(match e.landlock_abi {
        0 => "landlock=none".to_owned(),
        // ABI 1 can never grant REFER: no domain is used there (semantics 24).
        1 => "landlock=none(abi-1,reopening-not-closed)".to_owned(),
        n => format!("landlock={n}"),
    });
    if plan.exec.is_some() {
        out.push("exec=not-writable".to_owned());
    }
    if alone {
        if plan.broker.as_ref().is_some_and(|b| b.sockets.is_some()) {
            out.push("unix=by-path".to_owned());
        }
        out.push("processes=visible".to_owned());
        if !plan.fs_disabled {
            out.push("reads=contents(names-visible,denials-not-reported)".to_owned());
        }
        out.push("env".to_owned());
        return out;
    }
    let reads = plan.broker.as_ref().and_then(|b| b.reads.as_ref());
    if reads.is_some_and(|r| r.decides) {
        // Every open for reading is decided by name, those of hidden paths too.
        out.push("reads=trapped".to_owned());
    } else if let Some(reads) = e.reads {
        out.push(
            match reads {
                Reads::Covers => "reads=covers",
                Reads::Placeholders => "reads=placeholders(denials-not-reported)",
            }
            .to_owned(),
        );
    }
    if reads.is_some_and(|r| r.watched) {
        out.push("reads-watched".to_owned());
    }
    if plan.broker.as_ref().is_some_and(|b| b.sockets.is_some()) {
        out.push("unix=by-path".to_owned());
    }
    if !plan.read_floor.closed.is_empty() {
        out.push(match e.landlock_abi {
            0 | 1 => "read-floor=none(replaced-files-readable)".to_owned(),
            _ => "read-floor".to_owned(),
        });
    }
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
            reads: Some(Reads::Covers),
            broker: None,
        };
        assert_eq!(
            words(&p, &bwrap, &e).join(" "),
            "engine=bwrap-0.8.0 fs=mounts(not-yet=absent-names) net=off userns pid no-new-privs seccomp landlock=7 reads=covers env"
        );
        p.gaps.clear();
        p.read_floor.closed = vec!["/k".into()];
        let broker = |uninterrupted| Enforced {
            broker: Some(Brokered { uninterrupted }),
            ..e.clone()
        };
        for (uninterrupted, words_of_it) in [
            (true, " fs=mounts+broker net="),
            (false, " fs=mounts+broker(interruptible) net="),
        ] {
            let line = words(&p, &bwrap, &broker(uninterrupted)).join(" ");
            assert!(line.contains(words_of_it), "{line}");
        }
        p.network.mode = NetworkMode::Filtered;
        p.network.catch.ports = vec![80, 443];
        for (net, words_of_it) in [
            (Some(NetSetup::PreStage), " net=proxy+caught userns "),
            (Some(NetSetup::Inner), " net=proxy(not-caught) userns "),
        ] {
            let line = words(&p, &bwrap, &Enforced { net, ..e.clone() }).join(" ");
            assert!(line.contains(words_of_it), "{line}");
        }
        p.network.catch.ports.clear();
        p.network.mode = NetworkMode::Open;
        p.fs_disabled = true;
        let old = Enforced {
            landlock_abi: 0,
            reads: Some(Reads::Placeholders),
            ..e.clone()
        };
        assert_eq!(
            words(&p, &bwrap, &old).join(" "),
            "engine=bwrap-0.8.0 fs=disabled net=open userns pid no-new-privs seccomp landlock=none reads=placeholders(denials-not-reported) read-floor=none(replaced-files-readable) env"
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
