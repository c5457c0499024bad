//! Links on the way to something protected or granted.

use super::cases;

/// SL-1: a protected link is not pointed elsewhere, and what it leads to is protected.
#[test]
fn a_protected_link_and_its_target_are_protected() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/lnk\"]", "", "");
        let script = "echo KEEP > ws/real; ln -s real ws/lnk
            $R sh -c 'echo e > lnk; echo e > real; rm -f lnk; ln -sfn /etc/passwd lnk; mv lnk l2; mv real r2; rm -f real; true'; echo rc=$?
            readlink ws/lnk; cat ws/real; ls ws";
        c.control(script).prints("rc=0\nl2\nr2\n");
        c.steps(script)
            .prints("rc=0\nreal\nKEEP\nlnk\nreal\n")
            .says(&["denied file-write-unlink", "ws/lnk ", "protected_paths"]);
    }
}

/// SL-2: a protected link to a directory.
#[test]
fn a_protected_link_to_a_directory_protects_what_is_in_it() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/skills\"]", "", "");
        let script = "mkdir -p ws/shared/skills; echo KEEP > ws/shared/skills/a; ln -s shared/skills ws/skills
            $R sh -c 'echo e > skills/a; echo e > shared/skills/b; mv shared y; echo up'
            ls ws/shared/skills; cat ws/shared/skills/a; echo f > ws/shared/other; ls ws";
        c.control(script).prints("up\nskills\ny\n");
        c.steps(script).prints("up\na\nKEEP\nshared\nskills\n");
    }
}

/// SL-3: nothing is made where a dangling protected link leads.
#[test]
fn a_dangling_protected_link_is_left_alone() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/dl\", \"ws/near\"]", "", "");
        let script = "mkdir elsewhere ws/in; ln -s $T/elsewhere/missing ws/dl; ln -s in/missing ws/near
            $R true; echo rc=$?; ls -A elsewhere | wc -l; readlink ws/dl
            $R sh -c 'echo e > near; echo e > in/missing; rm -f near; true'; ls -A ws/in; readlink ws/near";
        let missing = c.t().join("elsewhere/missing");
        let missing = missing.display();
        c.control(script)
            .prints(&format!("rc=0\n0\n{missing}\nmissing\n"));
        c.steps(script)
            .prints(&format!("rc=0\n0\n{missing}\nin/missing\n"));
    }
}

/// SL-4: setting up follows no link in a parent directory to make something, and the command does not come that way either.
#[test]
fn nothing_is_made_through_a_planted_link() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/link/new\", \"ws/link/sub/dir\"]",
            "",
            "",
        );
        let script = "mkdir outside; ln -s $T/outside ws/link
            $R sh -c 'echo hi; echo e > link/new; rm -f link; true'; echo rc=$?; find outside; readlink ws/link";
        let outside = c.t().join("outside");
        c.control(script).prints("hi\nrc=0\noutside\noutside/new\n");
        c.steps(script)
            .prints(&format!("hi\nrc=0\noutside\n{}\n", outside.display()))
            .says(&["denied file-write-unlink", "ws/link "]);
    }
}

/// SL-5: the link that a protected path goes through is not pointed elsewhere.
#[test]
fn a_link_on_the_way_to_a_protected_path_stays() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/cur/conf\"]", "", "");
        let script = "mkdir ws/rel1 ws/rel2; echo KEEP > ws/rel1/conf; ln -s rel1 ws/cur
            $R sh -c 'ln -sfn rel2 cur; echo evil > cur/conf; mv cur c2; mv rel1 r1; mkdir cur'; cat ws/cur/conf; ls ws; ls ws/rel2";
        c.control(script).prints("c2\ncur\nr1\nrel2\nconf\n");
        c.steps(script).prints("KEEP\ncur\nrel1\nrel2\n").says(&[
            "denied",
            "ws/cur ",
            "protected_paths",
            "ws/cur/conf",
        ]);
    }
}

/// SL-6: working directory and home reached through links keep their spelling, their grants and their protection.
#[test]
fn cwd_and_home_may_be_links() {
    for c in cases() {
        c.raw_spec(
            "network_enabled = false\nprotected_paths = [\"~/.prot\"]\n\
             [[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n\
             [[bind_mounts]]\nhost_path = \"@T@/lnkws\"\n[[bind_mounts]]\nhost_path = \"@T@/lnkhome\"\n[filesystem]\nview = \"host\"\n",
        );
        let script = "mkdir realhome; ln -s ws lnkws; ln -s realhome lnkhome; echo KEEP > realhome/.prot
            cd lnkws && HOME=$T/lnkhome $RH bash -c 'touch ok1; touch $PWD/ok2; touch ~/ok3; echo e > ~/.prot; echo e > '$T'/realhome/.prot; pwd; pwd -P'
            cd $T; ls ws; ls realhome; cat realhome/.prot";
        let t = c.t();
        let t = t.display();
        c.steps(script)
            .prints(&format!("{t}/lnkws\n{t}/ws\nok1\nok2\nok3\nKEEP\n"));
    }
}

/// SL-7: links at names a wrapper could open are neither followed nor removed.
#[test]
fn ccbox_opens_no_name_in_the_workspace() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/.env\"]", "", "");
        let script = "mkdir victim; echo KEEP > victim/f
            for n in .ccbox .ccbox.log ccbox.lock .env.ccbox .env events.jsonl; do ln -s $T/victim/f ws/$n; done
            $R true; $R true; env -C ws ccbox run --spec $T/spec.toml --events events.jsonl -- true; echo rc=$?
            cat victim/f; ls victim; ls -A ws | wc -l
            # Control: whoever opened one of them would write there.
            echo OVER > ws/.ccbox.log; cat victim/f";
        c.steps(script)
            .prints("rc=125\nKEEP\nf\n6\nOVER\n")
            .says(&["events.jsonl"]);
    }
}
