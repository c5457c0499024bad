//! Kernel settings: uid 0 needs no capability for most of /proc/sys, and `core_pattern` names a program the host runs.
//!
//! bubblewrap 0.8.0 leaves it open for uid 0: it protects a directory of /proc only if access(2) calls it writable, which /proc/sys
//! itself is not, while the files in it are. It needs a read-only mount of its own.

use super::{Site, callers, machine_root, ran, sh};

/// Each is written with the value it has, so that the control changes nothing.
const ATTACK: &str = "
for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/swappiness /proc/sys/fs/file-max /proc/sys/kernel/modprobe; do
    value=$(cat $file) && printf '%s\\n' \"$value\" > $file && echo written
done
";

/// Only inside: these act at once.
const WORSE: &str = "
for file in /proc/sysrq-trigger /proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled /sys/fs/cgroup/cgroup.procs; do
    (exec 3>> $file) 2>/dev/null && echo opened $file
done
for file in /proc/kcore /proc/kmsg /proc/keys; do head -c 1 $file 2>/dev/null | grep -q . && echo read $file; done
";

#[test]
fn the_kernel_is_not_configured() {
    for caller in callers() {
        let site = Site::new(caller);
        let script = format!("{{ {ATTACK} }} 2>/dev/null");
        if machine_root(caller) {
            let control = ran(site.outside(&sh(&script)));
            assert!(control.has("written"), "{control:?}");
        }
        let attack = ran(site.inside(&sh(&script)));
        assert_eq!(attack.stdout, "__done__\n");
        let attack = ran(site.inside(&sh(WORSE)));
        assert_eq!(attack.stdout, "__done__\n");
    }
}
