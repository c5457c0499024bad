//! Taking the sandbox's own mounts away: umount, lazy umount, remount, bind over, move, the new mount calls; as user and as uid 0.

use super::{Caller, Site, callers, python, ran, sh};

const ATTACK: &str = "
umount prot; umount -l prot; mount -o remount,bind,rw prot; mount -o remount,rw prot
mount --bind dir prot; mount --move prot dir/prot
echo evil > prot; echo evil > dir/prot
umount $T/hidden; umount -l $T/hidden; mount --move $T/hidden dir; cat $T/hidden/secret
umount -l $T; umount -l $T/ws; mount -o remount,bind,rw $T; echo evil > $T/made; echo evil > /etc/ccbox-escape
mount -o remount,bind,rw /; umount -l /proc; umount -l /tmp; mount -t proc p /proc; mount -t sysfs s /sys
grep -E '^(CapEff|CapPrm|CapBnd|CapInh|CapAmb|NoNewPrivs)' /proc/self/status
";

/// open_tree, move_mount, mount_setattr, fsopen: numbers are the same everywhere.
const NEW_CALLS: &str = "
path = os.environ['T'].encode()
print('open_tree', call(428, -100, path + b'/hidden', 1)[1])
print('open_tree recursive', call(428, -100, b'/', 1 | 0x8000)[1])
attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
print('mount_setattr', call(442, -100, path + b'/ws/prot', 0, ctypes.byref(attributes), 32)[1])
print('fsopen', call(430, b'tmpfs', 0)[1])
print('move_mount', call(429, -100, path + b'/ws/prot', -100, path + b'/ws/dir', 0)[1])
";

#[test]
fn the_mounts_stay() {
    for caller in callers() {
        let site = Site::new(caller);
        // Control: the same steps take covers away where one has the capabilities.
        let control = ran(site.outside(&[
            "unshare",
            "-Urm",
            "sh",
            "-c",
            "mount --bind prot prot; mount -o remount,bind,ro prot; echo evil > prot; \
             mount -t tmpfs t $T/hidden; cat $T/hidden/secret; \
             umount prot && echo uncovered > prot; umount -l $T/hidden; cat $T/hidden/secret; echo __done__",
        ]));
        assert_eq!(control.stdout, "SECRET\n__done__\n");
        assert_eq!(site.read("ws/prot"), "uncovered\n");
        site.file("ws/prot", "KEEP\n");

        let attack = ran(site.inside(&sh(ATTACK)));
        assert!(!attack.stdout.contains("SECRET"), "{attack:?}");
        for set in ["Inh", "Prm", "Eff", "Bnd", "Amb"] {
            assert!(
                attack.has(&format!("Cap{set}:\t0000000000000000")),
                "{attack:?}"
            );
        }
        assert!(attack.has("NoNewPrivs:\t1"));
        assert_eq!(site.read("ws/prot"), "KEEP\n");
        assert_eq!(site.read("ws/dir/prot"), "KEEP\n");
        assert!(!site.path("made").exists());
        assert!(!std::path::Path::new("/etc/ccbox-escape").exists());

        // Inherited from a namespace that another user namespace owns, every flag is locked.
        let flags = ran(site.inside(&sh(
            "grep -E \" $T/(hidden|ws/prot) \" /proc/self/mountinfo | cut -d' ' -f5,6",
        )));
        let hidden = format!("{} ro,nosuid,nodev,noexec", site.path("hidden").display());
        let kept = format!("{} ro,", site.path("ws/prot").display());
        assert!(flags.stdout.contains(&hidden), "{flags:?}");
        assert!(flags.stdout.contains(&kept), "{flags:?}");

        let attack = ran(site.inside(&python(NEW_CALLS)));
        assert_eq!(attack.stdout.matches(" 1\n").count(), 5, "{attack:?}");
    }
}

/// Ordinary work goes on as uid 0 without capabilities.
#[test]
fn root_still_works() {
    for caller in callers().into_iter().filter(|c| *c == Caller::Root) {
        let site = Site::new(caller);
        let work = ran(site.inside(&sh(
            "id -u; echo data > new && cat new && mkdir sub && mv new sub/",
        )));
        assert_eq!(work.stdout, "0\ndata\n__done__\n");
        assert_eq!(site.read("ws/sub/new"), "data\n");
    }
}
