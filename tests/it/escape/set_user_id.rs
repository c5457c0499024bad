//! Set-user-id programs: sudo, su, mount and their like run with another user's rights.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use super::{Caller, Site, callers, ran, sh};

const SOURCE: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    printf("euid %d\n", geteuid());
    FILE *f = fopen("owned", "w");
    puts("__done__");
    return 0;
}
"#;

#[test]
fn the_bit_has_no_effect() {
    let both = callers();
    for &caller in &both {
        let site = Site::new(caller);
        let status = ran(site.inside(&sh("grep NoNewPrivs /proc/self/status")));
        assert!(status.has("NoNewPrivs:\t1"), "{status:?}");
    }
    // Only root can make such a program of root's.
    if both.contains(&Caller::Root) {
        let site = Site::new(Caller::User);
        let program = site.compile("suid", SOURCE, &[]);
        chown(&program, Some(0), Some(0)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let control = ran(site.outside(&[&program]));
        assert!(control.has("euid 0"), "{control:?}");
        std::fs::remove_file(site.path("ws/owned")).unwrap();
        let attack = ran(site.inside(&[&program]));
        assert!(!attack.has("euid 0"), "{attack:?}");
        let owner = std::fs::metadata(site.path("ws/owned")).unwrap().uid();
        assert_ne!(owner, 0);
    }
}
