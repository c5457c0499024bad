//! mknod: a device node of one's own reads the disk below every mount.

use std::os::unix::fs::FileTypeExt;

use super::{Site, callers, machine_root, ran, sh};

#[test]
fn no_device_is_made() {
    for caller in callers() {
        let site = Site::new(caller);
        let attack = sh(
            "mknod zero c 1 5; mknod disk b 254 0; head -c 1 zero >/dev/null && echo opened
mknod fifo p && echo fifo",
        );
        let made = |name: &str| {
            std::fs::symlink_metadata(site.path(&format!("ws/{name}"))).is_ok_and(|meta| {
                meta.file_type().is_char_device() || meta.file_type().is_block_device()
            })
        };
        let confined = ran(site.inside(&attack));
        assert!(!made("zero") && !made("disk"));
        assert_eq!(confined.stdout, "fifo\n__done__\n");
        if machine_root(caller) {
            std::fs::remove_file(site.path("ws/fifo")).unwrap();
            ran(site.outside(&attack));
            assert!(made("zero") && made("disk"), "control");
        }
        // Devices that exist outside are not shown.
        let shown = ran(site.inside(&sh("ls /dev")));
        for name in [
            "mem",
            "kmsg",
            "vsock",
            "fuse",
            "kvm",
            "vda",
            "sda",
            "loop-control",
        ] {
            assert!(!shown.has(name), "{name}");
        }
    }
}
