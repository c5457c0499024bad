//! open_by_handle_at: a handle names an inode of the file system wherever it is mounted; hidden files are one handle away.

use super::{Site, callers, machine_root, python, ran};

/// With `make`, prints a handle of the hidden file; else opens that handle from a directory of the same file system.
const HANDLE: &str = "
x86 = os.uname().machine == 'x86_64'
t = os.environ['T']
handle, mount = ctypes.create_string_buffer(8 + 128), ctypes.c_int()
if GIVEN is None:
    ctypes.c_uint.from_buffer(handle).value = 128
    print('handle', call(303 if x86 else 264, -100, (t + '/hidden/secret').encode(), handle, ctypes.byref(mount), 0)[1], handle.raw.hex())
else:
    given = ctypes.create_string_buffer(bytes.fromhex(GIVEN))
    for directory in (t + '/ws', '/'):
        fd, error = call(304 if x86 else 265, os.open(directory, os.O_RDONLY), given, 0)
        print('open', error)
        if fd >= 0: print(os.read(fd, 100).decode())
";

#[test]
fn no_handle_is_opened() {
    for caller in callers() {
        let site = Site::new(caller);
        let made = ran(site.outside(&python(&format!("GIVEN = None\n{HANDLE}"))));
        let words: Vec<&str> = made.stdout.split_whitespace().collect();
        assert_eq!(words[..2], ["handle", "0"], "{made:?}");
        let open = python(&format!("GIVEN = '{}'\n{HANDLE}", words[2]));
        if machine_root(caller) {
            let control = ran(site.outside(&open));
            assert!(control.has("SECRET"), "{control:?}");
        }
        let attack = ran(site.inside(&open));
        assert_eq!(attack.stdout, "open 1\nopen 1\n__done__\n");
        let attack = ran(site.inside(&python(&format!("GIVEN = None\n{HANDLE}"))));
        assert!(attack.stdout.starts_with("handle 1 "), "{attack:?}");
    }
}
