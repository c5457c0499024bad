//! A user namespace of one's own brings all capabilities back: with them, covers are unmounted and devices made.

use super::{Site, callers, python, ran, sh};

const ATTACK: &str = "
unshare -U true && echo user
unshare -Urm sh -c 'mount -t tmpfs t dir && echo mounted'
unshare -Urm sh -c 'umount -l $T/hidden; cat $T/hidden/secret'
unshare -Urm sh -c 'mount -o remount,bind,rw prot; umount prot; echo evil > prot'
unshare -Urn true && echo network
unshare -Urpf true && echo processes
";

/// clone and clone3 with every namespace flag, and unshare.
const CALLS: &str = "
x86 = os.uname().machine == 'x86_64'
for flag in (0x10000000, 0x10020000, 0x50000000, 0x30000000, 0x18000000, 0x14000000, 0x12000000):
    result, error = call(56 if x86 else 220, flag | 17, 0, 0, 0, 0)
    if result == 0: os._exit(0)
    if result > 0: os.waitpid(result, 0)
    print('clone', error)
    arguments = (ctypes.c_uint64 * 11)(flag, 0, 0, 0, 17)
    result, error = call(435, ctypes.byref(arguments), 88)
    if result == 0: os._exit(0)
    if result > 0: os.waitpid(result, 0)
    print('clone3', error)
";

#[test]
fn no_namespace_inside() {
    for caller in callers() {
        let site = Site::new(caller);
        let control = ran(site.outside(&sh(ATTACK)));
        for line in ["user", "mounted", "network", "processes", "SECRET"] {
            assert!(control.has(line), "{line}: {control:?}");
        }
        assert_eq!(site.read("ws/prot"), "evil\n");
        site.file("ws/prot", "KEEP\n");
        let control = ran(site.outside(&python(CALLS)));
        assert!(
            !control.has("clone 1") && !control.has("clone3 38"),
            "{control:?}"
        );

        let attack = ran(site.inside(&sh(ATTACK)));
        assert_eq!(attack.stdout, "__done__\n");
        assert_eq!(site.read("ws/prot"), "KEEP\n");
        let attack = ran(site.inside(&python(CALLS)));
        assert_eq!(attack.stdout.matches("clone 1\n").count(), 7, "{attack:?}");
        assert_eq!(
            attack.stdout.matches("clone3 38\n").count(),
            7,
            "{attack:?}"
        );
    }
}
