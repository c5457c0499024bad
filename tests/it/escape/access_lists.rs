//! An access control list is a mode: setxattr(2) must not change what chmod(2) may not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Caller, Site, callers, python, ran};

/// Names that are denied by a pattern or belong to git; `ws/free` is the command's own.
const DENIED: [&str; 5] = [
    "ws/.env",
    "ws/conf/a.key",
    "ws/.git/config",
    "ws/.git/hooks/pre-commit",
    "ws/.git/hooks",
];

fn place(caller: Caller) -> Site {
    let site = Site::new(caller);
    for name in ["ws/conf", "ws/.git", "ws/.git/hooks", "ws/.git/refs"] {
        fs::create_dir(site.path(name)).unwrap();
        site.give(&site.path(name));
    }
    site.file("ws/.git/HEAD", "ref: refs/heads/main\n");
    for name in [
        "ws/.env",
        "ws/conf/a.key",
        "ws/.git/config",
        "ws/.git/hooks/pre-commit",
        "ws/free",
    ] {
        let path = site.file(name, "");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::set_permissions(
        site.path("ws/.git/hooks"),
        fs::Permissions::from_mode(0o700),
    )
    .unwrap();
    let spec = site.spec("").replace(
        "view = \"host\"",
        "view = \"host\"\ndeny_write = [\".env\", \"**/conf/*.key\"]",
    );
    site.file("spec.toml", &spec);
    site
}

fn mode(site: &Site, name: &str) -> u32 {
    let meta = fs::metadata(site.path(name)).unwrap();
    meta.permissions().mode() & 0o7777
}

/// Every way to an attribute. The names of the attribute in memory change while one of them is set.
const ATTACK: &str = r"
import struct, threading
ACL, PLAIN = b'system.posix_acl_access', b'user.aaaaaaaaaaaaaaaaaaaa'[:23]
VALUE = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e, 0xffffffff) for e in ((1, 7), (4, 7), (0x20, 7)))
assert len(ACL) == len(PLAIN)
def quietly(act):
    try: act()
    except OSError: pass
SETTERS = {'x86_64': (188, 189, 190), 'aarch64': (5, 6, 7)}[os.uname().machine]
def attack(path):
    os.makedirs('links', exist_ok=True)
    link = 'links/' + path.replace('/', '_')
    quietly(lambda: os.symlink(os.path.abspath(path), link))
    held = os.open(path, os.O_RDONLY)
    place = os.open(path, os.O_PATH)
    own = lambda fd: '/proc/self/fd/%d' % fd
    for name in ('system.posix_acl_access', 'system.posix_acl_default'):
        for at in (path, './/' + path, os.path.abspath(path), '/proc/self/root' + os.path.abspath(path), link, own(held), own(place), held):
            for flags in (0, os.XATTR_CREATE, os.XATTR_REPLACE):
                quietly(lambda: os.setxattr(at, name, VALUE, flags))
        quietly(lambda: os.setxattr(path, name, VALUE, follow_symlinks=False))
        # setxattrat(2): the value, its size and flags are in memory.
        value = ctypes.create_string_buffer(VALUE, len(VALUE))
        args = ctypes.create_string_buffer(struct.pack('<QII', ctypes.addressof(value), len(VALUE), 0), 16)
        call(463, -100, path.encode(), 0, name.encode(), args, 16)
        call(463, held, b'', 0x1000, name.encode(), args, 16)
    name = ctypes.create_string_buffer(PLAIN, len(PLAIN) + 1)
    over = threading.Event()
    def flip():
        while not over.is_set():
            ctypes.memmove(name, ACL, len(ACL)); ctypes.memmove(name, PLAIN, len(PLAIN))
    other = threading.Thread(target=flip); other.start()
    for _ in range(300):
        call(SETTERS[0], path.encode(), name, VALUE, len(VALUE), 0)
        call(SETTERS[2], held, name, VALUE, len(VALUE), 0)
    over.set(); other.join()
    os.close(held); os.close(place)
for path in ('.env', 'conf/a.key', '.git/config', '.git/hooks/pre-commit', '.git/hooks'):
    attack(path)
# What is the command's own goes on working.
os.setxattr('free', 'user.kind', b'text')
assert os.getxattr('free', 'user.kind') == b'text'
os.removexattr('free', 'user.kind')
assert os.listxattr('free') == []
os.setxattr('free', 'system.posix_acl_access', VALUE)
";

#[test]
fn what_may_not_be_chmodded_gets_no_list() {
    for caller in callers() {
        let site = place(caller);
        let before = DENIED.map(|name| mode(&site, name));
        ran(site.inside(&python(ATTACK)));
        assert_eq!(DENIED.map(|name| mode(&site, name)), before);
        assert_eq!(mode(&site, "ws/free"), 0o777);

        let site = place(caller);
        ran(site.outside(&python(ATTACK)));
        assert_eq!(DENIED.map(|name| mode(&site, name)), [0o777; 5], "control");
    }
}

/// A list that keeps others out is not taken away either.
#[test]
fn a_list_is_not_removed() {
    const REMOVE: &str = r"
for path in ('.env', 'conf/a.key', '.git/config'):
    for at in (path, os.open(path, os.O_RDONLY)):
        try: os.removexattr(at, 'system.posix_acl_access')
        except OSError: pass
    call(466, -100, path.encode(), 0, b'system.posix_acl_access')
";
    /// The group's rights are the mask's, which leaves with the list: r-- of the entry comes back.
    const LIST: &str = r"
import struct
VALUE = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e, 0xffffffff) for e in ((1, 6), (4, 4), (0x10, 0), (0x20, 0)))
for path in ('.env', 'conf/a.key', '.git/config'): os.setxattr(path, 'system.posix_acl_access', VALUE)
";
    let denied = ["ws/.env", "ws/conf/a.key", "ws/.git/config"];
    let has_list = |site: &Site, name: &str| {
        let path = std::ffi::CString::new(site.path(name).into_os_string().into_encoded_bytes());
        let listed = ran(site.outside(&python(&format!(
            "print('LIST', 'system.posix_acl_access' in os.listxattr({:?}))",
            path.unwrap().to_str().unwrap()
        ))));
        listed.has("LIST True")
    };
    for caller in callers() {
        let site = place(caller);
        ran(site.outside(&python(LIST)));
        ran(site.inside(&python(REMOVE)));
        for name in denied {
            assert!(has_list(&site, name), "{name}");
        }
        ran(site.outside(&python(REMOVE)));
        for name in denied {
            assert!(!has_list(&site, name), "control: {name}");
        }
    }
}
