//! Engine `builtin` on kernels without the newer mount calls comes to the same mounts. The kernel is told apart by a filter around ccbox
//! that answers as an older one does; there is no switch in ccbox.

use super::Engine;
use crate::cases::{Done, cases};
use crate::escape::machine_root;

/// Every mount that can be reached, without the numbers that differ from run to run, and how many there are with those that others
/// stand over. The newer calls restrict these as well; whoever cannot change mounts never gets at them.
const TABLE: &str = r#"python3 -c '
import os
seen, count = [], 0
for line in open("/proc/self/mountinfo"):
    fields = line.split(" ", 5)
    count += 1
    try:
        fd = os.open(fields[4].encode().decode("unicode_escape"), os.O_PATH)
        number = [l.split()[1] for l in open(f"/proc/self/fdinfo/{fd}") if l.startswith("mnt_id:")][0]
        os.close(fd)
    except OSError: continue
    if number == fields[0]: seen.append(" ".join(fields[3:]))
print(*sorted(seen), count, sep="\n")'"#;

/// The tables on this kernel, on one before 5.12 and on one before 5.2.
fn tables(run: impl Fn(&str) -> Done) -> [String; 3] {
    ["", "$L mount_setattr", "$L mounts"].map(|lacks| {
        let done = run(&format!("{lacks} $R {TABLE}"));
        assert!(
            done.out().lines().count() > 10,
            "{}{}",
            done.out(),
            done.err
        );
        done.out().to_owned()
    })
}

#[test]
fn the_mounts_are_the_same() {
    for case in cases() {
        for (top, files, more) in [
            ("", "", ""),
            (
                "protected_paths = [\"ws/prot\"]",
                "deny_read = [\"ws/vault\", \"ws/key\"]",
                "",
            ),
            ("", "# sed", ""),
            (
                "",
                "",
                "[[bind_mounts]]\nhost_path = \"@T@/ws\"\nguest_path = \"/tmp/other\"\n[limits]\ntmp = \"1M\"",
            ),
            ("", "", "[[bind_mounts]]\nhost_path = \"/dev/shm\""),
        ] {
            case.spec(&format!("engine = \"builtin\"\n{top}"), files, more);
            if files == "# sed" {
                case.steps("sed -i 's/view = \"host\"/view = \"bound\"/' spec.toml");
            }
            case.steps("mkdir -p ws/prot ws/vault; echo SECRET > ws/key");
            let [new, one, all] = tables(|line| case.steps(line));
            assert_eq!(new, one, "{top} {files} {more}");
            assert_eq!(new, all, "{top} {files} {more}");
        }
    }
}

/// What the host has mounted below a tree is as read-only as the tree, odd names and mounts over mounts included.
#[test]
fn mounts_of_the_host_below_are_restricted_too() {
    for case in cases().into_iter().filter(|c| machine_root(c.caller)) {
        case.spec("engine = \"builtin\"", "", "");
        let around = |place: &str| {
            let mounts = "mkdir -p \"D/a b\" D/over; mount -t tmpfs -o mode=777 t \"D/a b\"; mkdir \"D/a b/c\"
                mount -t tmpfs -o mode=777,noatime t \"D/a b/c\"; mount -t tmpfs -o mode=777 t D/over; mkdir D/over/below
                mount -t tmpfs t D/over/below; mount -t tmpfs -o mode=777,nosuid t D/over; exec \"$@\"";
            let mounts = mounts.replace("D/", place);
            format!("unshare -m --propagation private sh -ec '{mounts}' sh")
        };
        let [new, one, all] = tables(|line| {
            let line = format!("{} $AS {line}", around("sub/"));
            case.root_steps(&line)
        });
        assert_eq!(new, one);
        assert_eq!(new, all);
        let below: Vec<_> = all.lines().filter(|l| l.contains("/sub/")).collect();
        assert_eq!(below.len(), 3, "{all}");
        for line in below {
            assert!(line.contains(" ro,nosuid,nodev"), "{line}");
        }
        let write = |place: &str| {
            let around = around(place);
            let script = format!(
                "{around} $L mounts $AS $R sh -c 'for d in \"$0a b\" \"$0a b/c\" \"$0over\"; do [ -d \"$d\" ] && echo there && echo > \"$d/f\" && echo wrote; done' $T/{place} 2>/dev/null"
            );
            case.root_steps(&script).out().to_owned()
        };
        assert_eq!(write("ws/sub/"), "there\nwrote\n".repeat(3));
        assert_eq!(write("sub/"), "there\n".repeat(3));
    }
}

/// bubblewrap takes such a tree over as it takes the other.
#[test]
fn bubblewrap_takes_it_over() {
    for case in cases() {
        case.spec(
            &format!("engine = \"{}\"", Engine::Bwrap.name()),
            "deny_read = [\"ws/vault\"]",
            "",
        );
        let script = "mkdir ws/vault; echo SECRET > ws/vault/k; $L mounts $R sh -c 'cat vault/k; echo hi > f; cat f; ls -d /dev/0 /dev/1' 2>/dev/null";
        case.steps(script).prints("hi\n");
    }
}
