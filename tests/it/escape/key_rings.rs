//! Key rings of the kernel are not namespaced: the caller's keys belong to the uid, which the child shares.

use super::{Site, callers, python, ran};

const KEYS: &str = "
x86 = os.uname().machine == 'x86_64'
ADD, KEYCTL = (248, 250) if x86 else (217, 219)
";

#[test]
fn the_callers_keys_are_out_of_reach() {
    for caller in callers() {
        let site = Site::new(caller);
        // A key in the user ring (-4), readable by its owner, and therefore by every process of that uid.
        let put = ran(site.outside(&python(&format!(
            "{KEYS}
call(KEYCTL, 1, 0)
call(KEYCTL, 8, -4, -3)
key, error = call(ADD, b'user', b'ccbox-escape', b'SECRET', 6, -4)
print(key, error, call(KEYCTL, 5, key, 0x3f3f0000)[1])"
        ))));
        let key = put.stdout.split_whitespace().next().unwrap().to_owned();
        let steal = python(&format!(
            "{KEYS}
buffer = ctypes.create_string_buffer(16)
length, error = call(KEYCTL, 11, {key}, buffer, 16)
print('read', error, buffer.value.decode())
print('add', call(ADD, b'user', b'ccbox-planted', b'x', 1, -4)[1])"
        ));
        let attack = ran(site.inside(&steal));
        let control = ran(site.outside(&steal));
        ran(site.outside(&python(&format!(
            "{KEYS}
call(KEYCTL, 9, {key}, -4)
found, error = call(KEYCTL, 10, -4, b'user', b'ccbox-planted', 0)
call(KEYCTL, 9, found, -4)"
        ))));
        assert!(
            control.has("read 0 SECRET") && control.has("add 0"),
            "{control:?}"
        );
        assert_eq!(attack.stdout, "read 1 \nadd 1\n__done__\n");
    }
}
