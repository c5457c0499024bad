//! A directory above a protected file is moved away and made anew: the cover goes with the old one.

use std::os::unix::fs::MetadataExt;

use super::{Site, callers, ran, sh};

const ATTACK: &str = "
mv dir moved && mkdir dir && echo evil > dir/prot
mkdir other && echo evil > other/prot
python3 -c \"
import ctypes
libc = ctypes.CDLL(None)
libc.renameat2(-100, b'dir', -100, b'other', 2)\"
";

#[test]
fn the_name_stays_protected() {
    for caller in callers() {
        let site = Site::new(caller);
        let inode = || std::fs::metadata(site.path("ws/dir")).unwrap().ino();
        let before = inode();
        ran(site.inside(&sh(ATTACK)));
        assert_eq!(site.read("ws/dir/prot"), "KEEP\n");
        assert_eq!(inode(), before);
        assert!(!site.path("ws/moved").exists());

        // Other directories move as ever.
        let work = ran(site.inside(&sh("mkdir a && mv a b && rmdir b && echo moved")));
        assert!(work.has("moved"), "{work:?}");

        std::fs::remove_dir_all(site.path("ws/other")).unwrap();
        ran(site.outside(&sh(ATTACK)));
        assert_eq!(site.read("ws/dir/prot"), "evil\n", "control");
    }
}
