//! Name patterns.

use super::cases;

/// GL-1: a pattern reaches existing files at any depth.
#[test]
fn a_pattern_reaches_every_depth() {
    for c in cases() {
        c.spec("protected_paths = [\"**/.env\", \"**/*.pem\"]", "", "");
        let script = "mkdir -p ws/p/q; echo K | tee ws/.env ws/p/.env ws/p/q/k.pem >/dev/null
            $R bash -c 'for f in .env p/.env p/q/k.pem; do echo e > $f; rm -f $f; mv $f x; chmod 777 $f; done; mv p p2; true'
            cat ws/.env ws/p2/.env ws/p2/q/k.pem; find ws -perm -o+w -type f";
        c.control(script).prints("");
        c.steps(script).prints("K\nK\nK\n").says(&[
            "denied file-write-data",
            "ws/p/q/k.pem",
            "**/*.pem",
            "spec.toml:2",
        ]);
    }
}

/// GL-2: what matches is not made after the start, whatever the way, and the rest is.
#[test]
fn a_pattern_holds_when_something_is_made() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/**/*.pem\"]", "", "");
        let control = "cd ws; mkdir d; echo x > new.pem; echo y > d/deep.pem; find . -name '*.pem' | wc -l; rm -r d new.pem";
        c.steps(control).prints("2\n");
        let script = "$R sh -c 'echo x > new.pem; mkdir -p d && echo y > d/deep.pem; echo z > fine.txt; mv fine.txt d/a.pem; ln fine.txt d/b.PEM
                mkdir e && echo k > e/k.txt && mv e d/dir.pem; cp fine.txt d/c.pem; tee d/f.pem < fine.txt; true' > /dev/null; echo rc=$?
            find ws -iname '*.pem' | wc -l; find ws -type f | sort";
        c.steps(script)
            .prints("rc=0\n0\nws/e/k.txt\nws/fine.txt\n")
            .says(&["denied file-write-create", "ws/new.pem", "ws/**/*.pem"]);
    }
}

/// GL-3: spellings of a directory mean the same.
#[test]
fn spellings_of_a_directory_are_one_rule() {
    for spelling in ["ws/v", "ws/v/", "ws/v/**", "./ws/./v"] {
        for c in cases() {
            c.spec("", &format!("deny_read = [\"{spelling}\"]"), "");
            let script = "mkdir -p ws/v/sub; echo SECRET > ws/v/k; echo SECRET > ws/v/sub/k
                $R sh -c 'cat v/k v/sub/k; echo end'";
            c.control(script).prints("SECRET\nSECRET\nend\n");
            c.steps(script).prints("end\n");
            c.spec(&format!("protected_paths = [\"{spelling}\"]"), "", "");
            let script = "$R sh -c 'echo e > v/k; echo e > v/new; mkdir v/d; rm -r v; mv v w; echo end'; cat ws/v/k; ls ws/v ws";
            c.steps(script)
                .prints("end\nSECRET\nws:\nv\n\nws/v:\nk\nsub\n");
        }
    }
}

/// GL-4: characters of patterns in literal names.
#[test]
fn literal_names_may_look_like_patterns() {
    for c in cases() {
        c.spec(
            "protected_paths = [{ path = \"ws/a[1]*/f\", literal = true }, \"ws/x{y}/f\"]",
            "",
            "",
        );
        let script = r#"mkdir 'ws/a[1]*' 'ws/x{y}' ws/a1zz; echo K > 'ws/a[1]*/f'; echo K > 'ws/x{y}/f'; echo K > ws/a1zz/f
            $R bash -c 'echo e > "a[1]*/f"; echo e > "x{y}/f"; echo free > a1zz/f; true'; cat 'ws/a[1]*/f' 'ws/x{y}/f' ws/a1zz/f"#;
        c.control(script).prints("e\ne\nfree\n");
        c.steps(script).prints("K\nK\nfree\n");
    }
}

/// The names that profiles bring along, and what lifts them.
#[test]
fn patterns_of_profiles_leave_installs_alone() {
    for c in cases() {
        c.spec("", "allow_create = [\"ws/fixtures/*.pem\"]", "");
        let script = "$R sh -c 'for f in .env .env.local .env.dev.local a.key b.PEM .env.example env fixtures/t.pem node_modules/x/ca.pem; do
                mkdir -p $(dirname $f); echo x > $f; done; true' 2>err; (cd ws; find . -type f | LC_ALL=C sort)
            grep '^ccbox: hint' err | head -1 | sed s,$T,T,";
        c.steps(script).prints(
            "./.env.example\n./env\n./fixtures/t.pem\n./node_modules/x/ca.pem\nccbox: hint: [filesystem] allow_create = [\"T/ws/.env\"]\n",
        );
        // Without a spec only the names of environments.
        let script = "cd ws; ccbox run sh -c 'echo x > .env; echo x > a.key; true' 2>/dev/null; ls -A a.key .env 2>/dev/null";
        c.steps(script).prints("a.key\n");
    }
}

/// Only the spec's own rule that denies says how it goes away; a line is printed once and counted.
#[test]
fn a_denial_is_one_line_with_its_rule_and_what_allows_it() {
    for c in cases() {
        c.spec("", "deny_write = [\"*.sqlite\"]", "");
        let script = "$R sh -c 'for i in 1 2 3; do echo x > db.sqlite; done; true' 2>err
            grep '^ccbox:' err | sed \"s,$T,T,g; s,[0-9][0-9]*\\],N],\"";
        c.steps(script).prints(
            "ccbox: denied file-write-create T/ws/db.sqlite [sh N]: deny_write \"*.sqlite\" (T/spec.toml:11)\n\
             ccbox: hint: remove T/spec.toml:11\n\
             ccbox: 3 times: file-write-create T/ws/db.sqlite [sh]\n",
        );
    }
}

/// Neighbours of GL-1 and GL-2: classes, letters outside of ASCII, and wildcards at both ends, by every way a name comes about.
#[test]
fn unusual_patterns_hold_by_every_way() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"[ks]*.txt\", \"straße*\", \"*token*\", \"ws/**/a?c\"]",
            "",
            "",
        );
        let script = "mkdir -p ws/d/e; echo x > ws/free
            $R bash -c 'for n in key.txt SEC.TXT straße1 STRASSE2 Straße3 mytokens TOKEN d/abc d/e/aXc; do
                : > $n; mkdir $n; ln free $n; ln -s free $n; cp free $n; cp free new && mv new $n; mkfifo $n; touch -r free $n; rm -f new; done 2>/dev/null
              perl -e \"use Fcntl; sysopen(F, \\\"t.key.txt\\\", O_CREAT|O_WRONLY) or die; link(\\\"t.key.txt\\\", \\\"skey.txt\\\")\"; true'
            cd ws; find . -type f | sort";
        // `ß` is `ss` where case is folded (R36).
        c.steps(script).prints("./free\n./t.key.txt\n");
    }
}

/// A pattern is about names as they are below the grant, not about the way they are written.
#[test]
fn patterns_hold_for_every_spelling_of_a_path() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/**/keys/*\"]", "", "");
        let script = "mkdir -p ws/keys ws/a/keys ws/a/b; ln -s keys ws/k; ln -s ../keys ws/a/up
            $R bash -c 'for p in keys/x keys//x ./keys/./x a/../keys/x a/b/../keys/x k/x a/up/x $PWD/keys/x /proc/self/cwd/keys/x /proc/self/root$PWD/keys/x; do
                : > $p; mkdir $p; done 2>/dev/null; exec 9< keys; : > /proc/self/fd/9/x; cd keys && : > x; cd ../a && mv b keys/b; true' 2>/dev/null
            find ws/keys ws/a/keys | sort; ls ws/a";
        c.control("mkdir -p ws/keys; $R bash -c ': > keys/x'; find ws/keys | sort")
            .prints("ws/keys\nws/keys/x\n");
        c.steps(script).prints("ws/a/keys\nws/keys\nb\nkeys\nup\n");
    }
}
