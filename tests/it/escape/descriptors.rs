//! Descriptors the caller has open: a directory is a door to what lies below it, a file open for writing is written.

use super::{Site, callers, ran, sh};

#[test]
fn nothing_is_inherited() {
    for caller in callers() {
        let site = Site::new(caller);
        site.file("out", "");
        let attack = "
ls /proc/self/fd/7/; cat /proc/self/fd/7/secret; cat /dev/fd/7/secret
(cd /proc/self/fd/7 && cat secret)
(echo leak >&8) 2>/dev/null
cat <&9
ls /proc/self/fd | grep -c .
";
        let open = |argv: &[String]| -> Vec<String> {
            let mut all: Vec<String> = [
                "sh",
                "-c",
                "exec 7<$T/hidden 8>>$T/out 9<$T/hidden/secret; exec \"$@\"",
                "sh",
            ]
            .map(str::to_owned)
            .to_vec();
            all.extend(argv.iter().cloned());
            all
        };

        let control = ran(site.outside(&open(&sh(attack))));
        assert!(control.has("SECRET"), "{control:?}");
        assert_eq!(site.read("out"), "leak\n");
        site.file("out", "");

        let mut inside = vec![site.ccbox.to_str().unwrap().to_owned()];
        inside.extend(
            site.ccbox_args(&sh(attack))
                .into_iter()
                .map(|arg| arg.into_string().unwrap()),
        );
        let attack = ran(site.outside(&open(&inside)));
        assert!(!attack.stdout.contains("SECRET"), "{attack:?}");
        // 0, 1, 2 and the one `ls` reads the directory with.
        assert!(attack.has("4"), "{attack:?}");
        assert_eq!(site.read("out"), "");
    }
}
