//! io_uring: rings open files and sockets without a system call that a filter could see.

use super::{Site, callers, python, ran};

#[test]
fn there_are_no_rings() {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let open = disabled.map_or(true, |value| value.trim() == "0");
    for caller in callers() {
        let site = Site::new(caller);
        let attack = python("print('setup', call(425, 4, ctypes.create_string_buffer(120))[1])");
        let control = ran(site.outside(&attack));
        assert_eq!(control.has("setup 0"), open, "{control:?}");
        let confined = ran(site.inside(&attack));
        assert!(confined.has("setup 38"), "{confined:?}");
    }
}
