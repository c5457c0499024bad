//! setns(2) into another process' namespaces.

use super::{Site, callers, python, ran, sh};

#[test]
fn no_other_namespace_is_entered() {
    for caller in callers() {
        let site = Site::new(caller);
        let enter = "nsenter --mount=/proc/self/ns/mnt true && echo entered";
        let control = ran(site.outside(&[
            "unshare",
            "-Urm",
            "sh",
            "-c",
            &format!("{enter}; echo __done__"),
        ]));
        assert!(control.has("entered"), "{control:?}");

        let attack = ran(site.inside(&sh(&format!(
            "{enter}
            for kind in mount net pid ipc uts user cgroup; do nsenter -t 1 --$kind true && echo entered; done"
        ))));
        assert_eq!(attack.stdout, "__done__\n");

        // By pidfd as well.
        let attack = ran(site.inside(&python(
            "
x86 = os.uname().machine == 'x86_64'
for pid in (1, os.getpid()):
    for kind in (0x10000000, 0x00020000, 0x40000000):
        print('setns', call(308 if x86 else 268, os.pidfd_open(pid), kind)[1])",
        )));
        assert_eq!(attack.stdout.matches("setns 1\n").count(), 6, "{attack:?}");
    }
}
