//! The classic way out of a chroot: chroot again, below a directory one keeps open.

use super::{Site, callers, machine_root, python, ran};

const ATTACK: &str = "
t = os.environ['T']
kept = os.open('.', os.O_RDONLY)
try:
    os.chroot('dir'); print('chroot')
    os.fchdir(kept)
    for _ in range(64): os.chdir('..')
    os.chroot('.')
except OSError as e: print('errno', e.errno)
try: print(open(t + '/hidden/secret').read())
except OSError: pass
";

#[test]
fn the_root_stays() {
    for caller in callers() {
        let site = Site::new(caller);
        if machine_root(caller) {
            let control = ran(site.outside(&python(ATTACK)));
            assert!(
                control.has("chroot") && control.has("SECRET"),
                "{control:?}"
            );
        }
        let attack = ran(site.inside(&python(ATTACK)));
        assert_eq!(attack.stdout, "errno 1\n__done__\n");
    }
}
