//! More ways to do what the cases do: each succeeds outside, and leaves nothing inside.

use super::cases;

/// Ways into a protected file, by what everyday programs do. `other` holds `evil`.
const INTO: [&str; 9] = [
    "dd if=other of=F bs=1 count=1 conv=notrunc",
    "sed -i s/KEEP/evil/ F",
    "install -m 600 other F",
    "ln -f other F",
    "cp --remove-destination other F",
    "perl -e 'open(F, \"+<\", \"F\") && print F \"evil\"'",
    "tar -xf evil.tar",
    "exec 3<F; echo evil > /dev/fd/3",
    "python3 -c 'import os; os.replace(\"other\", \"F\")'",
];

#[test]
fn everyday_programs_leave_a_protected_file() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/prot\"]", "", "");
        for way in INTO {
            let way = way
                .replace('F', "prot")
                .replace("open(prot", "open(F")
                .replace("print prot", "print F");
            let script = format!(
                "cd ws; echo evil > prot; tar -cf evil.tar prot; echo KEEP > prot; echo evil > other; cd ..
                $R sh -c '{}'; cat ws/prot",
                way.replace('\'', "'\\''")
            );
            let control = c.control(&script);
            assert_ne!(control.out, "KEEP\n", "{way}: {control:?}");
            c.steps(&script)
                .prints("KEEP\n")
                .says(&["denied", "ws/prot "]);
        }
    }
}

/// Ways to what a protected link leads to.
const THROUGH: [&str; 8] = [
    "ln -sfT other lnk",
    "mv -T other lnk",
    "cp --remove-destination other lnk",
    "ln -s lnk l2; echo evil > l2",
    "echo evil > /proc/self/cwd/lnk",
    "rm -f lnk; cp other lnk",
    "ln -sf other real",
    "exec 3<lnk; echo evil > /proc/self/fd/3",
];

#[test]
fn no_way_through_a_protected_link() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/lnk\"]", "", "");
        for way in THROUGH {
            let script = format!(
                "echo KEEP > ws/real; ln -sf real ws/lnk; echo evil > ws/other
                $R sh -c '{way}'; cat ws/lnk; rm -f ws/l2"
            );
            let control = c.control(&script);
            assert_eq!(control.out, "evil\n", "{way}: {control:?}");
            c.steps(&script).prints("KEEP\n").says(&["denied", "ws/"]);
        }
    }
}

/// However a run ends, it leaves nothing of its own: not in the work tree, and where the runs meet only the lock and the count.
#[test]
fn nothing_is_left_however_it_ends() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/none\", \"ws/a/b\"]",
            "deny_write = [\"*.x\"]",
            "",
        );
        let script = "for s in KILL TERM HUP INT QUIT; do timeout -s $s 0.4 $R sh -c 'mkdir a; sleep 30'; done 2>/dev/null
            $R sh -c 'mkdir a; kill -9 $$'; $R sh -c 'exit 3'; $R none; ccbox run --spec $T/none.toml -- true
            rmdir ws/a; ls -A ws $T; ls -A /tmp/.ccbox-$(id -u)";
        let t = c.t();
        c.steps(script).prints(&format!(
            "{0}:\nspec.toml\nws\n\nws:\nlock\nmoves\n",
            t.display()
        ));
    }
}
