//! Other socket families: AF_VSOCK (the hypervisor, not namespaced), AF_PACKET, AF_ALG, AF_XDP, netlink other than routes.

use super::{Site, callers, python, ran};

const ATTACK: &str = "
for family, kind, protocol in ((40, 1, 0), (17, 3, 0), (2, 10, 0), (38, 5, 0), (44, 3, 0), (31, 3, 1), (16, 3, 9), (16, 3, 4), (16, 3, 12), (16, 3, 15), (2, 1, 0), (10, 2, 0), (16, 3, 0)):
    try: socket.socket(family, kind, protocol); print(family, kind, protocol, 'open')
    except OSError as e: print(family, kind, protocol, e.errno)
";

#[test]
fn only_the_listed_families() {
    for caller in callers() {
        let site = Site::new(caller);
        let control = ran(site.outside(&python(ATTACK)));
        for line in ["2 1 0 open", "16 3 9 open", "16 3 15 open", "16 3 0 open"] {
            assert!(control.has(line), "{control:?}");
        }
        let attack = ran(site.inside(&python(ATTACK)));
        assert_eq!(
            attack.stdout,
            "40 1 0 97\n17 3 0 97\n2 10 0 97\n38 5 0 97\n44 3 0 97\n31 3 1 97\n\
             16 3 9 93\n16 3 4 93\n16 3 12 93\n16 3 15 93\n2 1 0 open\n10 2 0 open\n16 3 0 open\n__done__\n"
        );
    }
}
