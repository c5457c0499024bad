//! A second name for a protected file, for a hidden one, and files moved onto each other.

use super::{Site, callers, ran, sh};

#[test]
fn no_alias_of_a_protected_file() {
    for caller in callers() {
        let site = Site::new(caller);
        let attack = sh("
ln prot alias && echo evil > alias
ln $T/hidden/secret found && cat found
mv $T/hidden/secret found2 && cat found2
echo evil > new && mv -f new prot
ln -sf $PWD/new dir/prot
cp -f /dev/null dir/prot
rm -f prot dir/prot
python3 -c 'import os; os.rename(\"prot\", \"gone\")'");
        let attack_ran = ran(site.inside(&attack));
        assert!(!attack_ran.stdout.contains("SECRET"), "{attack_ran:?}");
        assert_eq!(site.read("ws/prot"), "KEEP\n");
        assert_eq!(site.read("ws/dir/prot"), "KEEP\n");
        assert_eq!(site.read("hidden/secret"), "SECRET\n");
        assert!(!site.path("ws/alias").exists());

        let control = ran(site.outside(&sh(
            "ln prot alias && echo evil > alias; ln $T/hidden/secret found && cat found",
        )));
        assert!(control.has("SECRET"));
        assert_eq!(site.read("ws/prot"), "evil\n");
    }
}
