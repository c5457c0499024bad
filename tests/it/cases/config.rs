//! Specs that are wrong, odd or large.

use super::cases;

/// CF-1: a misspelt or misplaced key names itself, its line and the nearest valid one.
#[test]
fn a_misspelt_key_starts_nothing() {
    for c in cases() {
        for (text, line, words) in [
            (
                "mode = \"chat\"\nprotcted = [\"x\"]",
                2,
                ["protcted", "protected_paths"],
            ),
            ("[Network]\nmode = \"off\"", 1, ["Network", "`network`"]),
            ("[filesystem]\nallow = [\"x\"]", 2, ["allow", "allow_write"]),
            (
                "[network]\nallow_write = [\"x\"]",
                2,
                ["allow_write", "[filesystem]"],
            ),
            (
                "[network]\nallowed_domains = \"x\"",
                2,
                ["allowed_domains", "list"],
            ),
            (
                "allowed_domains = [\"x\"]",
                1,
                ["allowed_domains", "[network]"],
            ),
            (
                "[[bind_mounts]]\nhost_path = \".\"\nreadonly = true",
                3,
                ["readonly", "read_only"],
            ),
        ] {
            c.raw_spec(text);
            let place = format!("spec.toml:{line}:");
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&[&place, words[0], words[1]]);
        }
    }
}

/// CF-2: a spec that cannot be read or parsed is never replaced by defaults.
#[test]
fn a_broken_spec_starts_nothing() {
    for c in cases() {
        for (make, says) in [
            ("true", "no such file"),
            (": > spec.toml", "empty"),
            ("mkdir spec.toml", "directory"),
            ("echo 'mode = ' > spec.toml", "spec.toml:1:"),
            (
                "printf '[[bind_mounts]]\\nhost_pa' > spec.toml",
                "spec.toml:2:",
            ),
            ("printf '\\377\\376' > spec.toml", "UTF-8"),
            ("ln -s spec.toml spec.toml", "spec.toml"),
            ("echo '(version 1)' > spec.toml", "sandbox-exec"),
        ] {
            let script = format!("rm -rf spec.toml; {make}; $R echo STARTED; echo rc=$?");
            c.steps(&script)
                .prints("rc=125\n")
                .refuses(&["spec.toml", says]);
        }
        // uid 0 may read it.
        if c.caller == crate::escape::Caller::User {
            let script = "rm -rf spec.toml; echo 'mode = \"chat\"' > spec.toml; chmod 000 spec.toml; $R echo STARTED; echo rc=$?";
            c.steps(script)
                .prints("rc=125\n")
                .refuses(&["spec.toml", "permission denied"]);
        }
    }
}

/// CF-3: the spec in use cannot be changed from inside, by none of its names.
#[test]
fn the_spec_in_use_is_protected() {
    for c in cases() {
        let script = "printf 'network_enabled = false\\n[[bind_mounts]]\\nhost_path = \".\"\\n' > ws/.ccbox.toml; mkdir ws/sub
            ln -s ../.ccbox.toml ws/sub/l.toml; sha256sum ws/.ccbox.toml > s
            for f in .ccbox.toml ./.ccbox.toml $T/ws/.ccbox.toml sub/../.ccbox.toml sub/l.toml; do
              env -C ws ccbox run --spec $f -- bash -c 'echo \"# x\" >> .ccbox.toml; mv .ccbox.toml b; rm -f .ccbox.toml; cp /dev/null .ccbox.toml; echo ran'
              sha256sum -c --quiet s && echo kept; done; ls -A ws
            env -C ws bash -c 'echo x >> .ccbox.toml'; sha256sum -c --quiet s > /dev/null 2>&1 || echo control";
        c.steps(script)
            .prints(&("ran\nkept\n".repeat(5) + ".ccbox.toml\nsub\ncontrol\n"));
    }
}

/// CF-3 for a home shown elsewhere: the command cannot be the one that makes ccbox's configuration or its state.
#[test]
fn ccboxs_own_files_stay_closed_in_a_moved_home() {
    for c in cases() {
        c.raw_spec("network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/h\"\nguest_path = \"/tmp/h\"\n");
        let script = "mkdir h; for d in .config .local/state; do
              HOME=$T/h ccbox run --spec $T/spec.toml --chdir /tmp/h -- sh -c \"touch made; mkdir -p $d/ccbox/sub; touch $d/ccbox/f && echo evil\"; rm h/made && echo ran; done; find h -type f -not -path '*/ccbox/runs/*' -not -path '*/ccbox/denials/*'";
        c.steps(script).prints("ran\nran\n");
    }
}

/// CF-4: a missing writable path is named; missing denies leave the others in force.
#[test]
fn missing_paths_are_named_or_harmless() {
    for c in cases() {
        for (files, more) in [
            ("", "[[bind_mounts]]\nhost_path = \"@T@/gone\"\n"),
            ("allow_write = [\"gone\"]", ""),
        ] {
            c.spec("", files, more);
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&["gone", "nothing exists", "spec.toml:"]);
        }
        c.spec(
            "protected_paths = [\"gone\", \"ws/prot\"]",
            "deny_read = [\"away\", \"ws/hid\"]",
            "",
        );
        let script = "echo K > ws/prot; echo SECRET > ws/hid; $R sh -c 'touch ok && echo wrote; echo e > prot; cat hid'; cat ws/prot; ls ws";
        c.steps(script).prints("wrote\nK\nhid\nok\nprot\n");
    }
}

/// CF-5: every spelling of a path means the same path, and variables are refused.
#[test]
fn spellings_of_a_path_are_equal() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"./ws/prot\", \"ws/prot/\", \"@T@//ws/./prot\", \"ws/../ws/prot\", \"~/x\", \"~//./y\"]",
            "deny_read = [\"ws/./prot\"]",
            "[[bind_mounts]]\nhost_path = \"h\"\n",
        );
        let script = "mkdir -p h; echo K > ws/prot; echo K > h/x; echo K > h/y
            HOME=$T/h $R sh -c 'echo e > prot; cat prot; echo e > '$T'/h/x; echo e > '$T'/h/y; echo up'; cat ws/prot h/x h/y";
        c.steps(script).prints("up\nK\nK\nK\n");
        for path in ["$HOME/y", "${HOME}/y", "a/$TMPDIR"] {
            c.spec(&format!("protected_paths = [\"{path}\"]"), "", "");
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&["is not expanded", "spec.toml:2:"]);
        }
    }
}

/// CF-6: blanks, quotes, newlines, dashes and bytes that are no UTF-8 in names.
#[test]
fn odd_names_are_taken_as_they_are() {
    for c in cases() {
        c.raw_spec(
            "network_enabled = false\nprotected_paths = [\"@T@/w s ü'\\\"\\n-x/-rf/p \\nq\"]\n\
             [[bind_mounts]]\nhost_path = \"@T@/w s ü'\\\"\\n-x\"\n",
        );
        let script = r#"D=$'w s ü\'"\n-x'; mkdir "$D" "$D/-rf"; echo K > "$D/-rf/p "$'\n'"q"; cd "$D"
            $RH bash -c 'touch ok $'"'"'n\xff'"'"'; for f in ./-rf/*; do echo e > "$f"; done; pwd'; ls | wc -l; cat ./-rf/*
            cd $T; B=$'b\xff'; mkdir "$B"; cd "$B"; ccbox run --rw . --protect ./p -- sh -c 'touch made; pwd' | od -An -c | tr -d ' \n' | tail -c 9; ls"#;
        let t = c.t();
        c.steps(script).prints(&format!(
            "{}/w s ü'\"\n-x\n3\nK\n/t/b377\\nmade\n",
            t.display()
        ));
    }
}

/// CF-7: empty, unknown or mistyped values never select the weakest setting.
#[test]
fn empty_and_unknown_values_are_refused() {
    for c in cases() {
        for text in [
            "mode = \"\"",
            "mode = \"chatt\"",
            "backend = \"\"",
            "backend = \"NATIVE \"",
            "network_enabled = \"false\"",
            "network_enabled = 0",
            "sandbox = \"\"",
            "sandbox = false",
            "sandbox = \"no\"",
            "profile = \"\"",
            "profile = \"Dev\"",
            "[network]\nmode = \"\"",
            "[network]\nmode = \"on\"",
            "[filesystem]\nview = \"\"",
            "[filesystem]\ncaches = \"\"",
            "[filesystem]\ndisabled = \"no\"",
        ] {
            c.raw_spec(text);
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&["spec.toml:"]);
        }
        c.spec("", "", "");
        let script = "CCBOX_BACKEND= CCBOX_SANDBOX= CCBOX_SPEC= $R touch ok; ls ws
            CCBOX_SANDBOX=nope $R echo STARTED; echo rc=$?";
        c.steps(script)
            .prints("ok\nrc=125\n")
            .refuses(&["CCBOX_SANDBOX", "nope"]);
    }
}

/// CF-8: forms of TOML.
#[test]
fn toml_forms_are_accepted_or_refused_with_their_line() {
    for c in cases() {
        for text in [
            "\u{feff}network_enabled = false\n[[bind_mounts]]\nhost_path = \"ws\"\n",
            "network_enabled = false\r\n[[bind_mounts]]\r\nhost_path = \"ws\"\r\n",
            "filesystem.view = \"host\"\nbind_mounts = [{ host_path = \"ws\" }] # end",
            "filesystem = { view = \"host\", deny_read = [\"x\"] }\n[[bind_mounts]]\nhost_path = \"ws\"\n# end",
            "[[bindMounts]]\nhostPath = \"ws\"\nreadOnly = false\n",
        ] {
            c.raw_spec(text);
            c.steps("rm -f ws/ok; $R touch ok; ls ws")
                .prints("ok\n")
                .says_nothing();
        }
        for (text, line) in [
            ("mode = \"chat\"\nmode = \"chat\"\n", 2),
            ("protected_paths = [\"a\", 1]\n", 1),
            (
                "[filesystem]\nview = \"host\"\n[filesystem]\ndeny_read = []\n",
                3,
            ),
            (
                "[[bind_mounts]]\nhost_path = \"ws\"\nhostPath = \"ws\"\n",
                3,
            ),
        ] {
            c.raw_spec(text);
            let place = format!("spec.toml:{line}:");
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&[&place]);
        }
    }
}

/// CF-9, PF-1: limits are said, and thousands of existing entries hold.
#[test]
fn long_many_and_deep_end_in_words_or_success() {
    for c in cases() {
        let long = "a".repeat(256);
        let deep = "/a".repeat(2100);
        for (text, says) in [
            (format!("protected_paths = [\"ws/{long}\"]"), "256 bytes"),
            (
                format!("[filesystem]\ndeny_read = [\"{deep}\"]"),
                "4200 bytes",
            ),
            (
                format!("[[bind_mounts]]\nhost_path = \"{deep}\""),
                "4200 bytes",
            ),
            (
                format!("x = {}{}", "[".repeat(5000), "]".repeat(5000)),
                "spec.toml:1:",
            ),
            (format!("{}x = 1", "x.".repeat(5000)), "spec.toml:1:"),
            (format!("#{}", "x".repeat(5_000_000)), "larger than"),
        ] {
            c.raw_spec(&text);
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&[says]);
        }
        let many: Vec<String> = (0..10_000).map(|i| format!("\"ws/d/f{i}\"")).collect();
        let many = many.join(",");
        c.spec(&format!("protected_paths = [{many}]"), "", "");
        let script = "mkdir ws/d; (cd ws/d; seq -f f%.0f 0 9999 | xargs touch); timeout 20 $R sh -c 'echo e > d/f17; echo e > d/f9999; echo up'
            find ws/d -type f -size +0";
        c.steps(script).prints("up\n");
        c.spec("", &format!("deny_read = [{many}]"), "");
        c.steps("timeout 20 $R sh -c 'cat d/f17 || echo 17; cat d/f9999 || echo 9999'")
            .prints("17\n9999\n");
    }
}
