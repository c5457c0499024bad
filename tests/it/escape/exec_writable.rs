//! `exec.deny_writable`: a program the command has written, or could have, is not executed by any of its names.

use super::{Site, callers, ran, sh};

/// Copies `true` about and tries every way to start it; prints `RAN` and the way.
const ATTACK: &str = r#"
try() { way=$1; shift; "$@" 2>/dev/null && echo RAN $way; }
cp /bin/true tool; ln -s tool link; ln tool hard; cp /bin/true /tmp/tool; cp /bin/true /dev/shm/tool; cp /bin/true /var/tmp/tool
printf '#!/bin/sh\nexit 0\n' > script; chmod 755 script
try plain ./tool; try absolute "$PWD/tool"; try link ./link; try hard ./hard; try script ./script
try tmp /tmp/tool; try vartmp /var/tmp/tool; try shm /dev/shm/tool
try root "/proc/self/root$PWD/tool"; try cwd /proc/self/cwd/tool
try descriptor python3 -c 'import os, sys; fd = os.open("tool", os.O_RDONLY); os.execve(fd, ["tool"], {})'
try number python3 -c 'import os; fd = os.open("tool", os.O_RDONLY); os.set_inheritable(fd, True); os.execv("/proc/self/fd/%d" % fd, ["tool"])'
mkdir moved; mv tool moved/tool; try moved ./moved/tool
try renamed python3 -c 'import os; os.rename("moved", "again"); os.execv("again/tool", ["tool"])'
"#;

#[test]
fn what_can_be_written_is_not_executed() {
    for caller in callers() {
        let site = Site::new(caller);
        let control = ran(site.outside(&sh(ATTACK)));
        assert!(control.stdout.matches("RAN").count() >= 12, "{control:?}");
        let site = Site::new(caller);
        let spec = format!("{}\n[exec]\ndeny_writable = true\n", site.spec(""));
        site.file("spec.toml", &spec);
        let attack = ran(site.inside(&sh(ATTACK)));
        assert!(!attack.stdout.contains("RAN"), "{attack:?}");
        // Ordinary work goes on: interpreters read scripts, and renames between directories succeed.
        let work = ran(site.inside(&sh(
            "sh ./script && echo read; mkdir -p a b && touch a/f && mv a/f b/f && ls b; /usr/bin/env true && echo system",
        )));
        for line in ["read", "f", "system"] {
            assert!(work.has(line), "{work:?}");
        }
    }
}

/// The same file shown a second time, read-only at its own path.
#[test]
fn a_second_path_of_a_writable_tree_is_closed_too() {
    for caller in callers() {
        let site = Site::new(caller);
        let t = site.path("");
        let t = t.to_str().unwrap().trim_end_matches('/');
        let spec = format!(
            "network_enabled = false\nguest_workdir = \"/tmp/build\"\n\
             [[bind_mounts]]\nhost_path = \"{t}\"\nread_only = true\n\
             [[bind_mounts]]\nhost_path = \"{t}/ws\"\nguest_path = \"/tmp/build\"\n\
             [filesystem]\nview = \"host\"\n[exec]\ndeny_writable = true\n"
        );
        site.file("spec.toml", &spec);
        let attack = "cp /bin/true tool && echo copied; ./tool && echo RAN; $T/ws/tool && echo RAN";
        let attack = ran(site.inside(&sh(attack)));
        assert!(attack.has("copied") && !attack.has("RAN"), "{attack:?}");
    }
}

/// `exec_grant_roots` open a writable place again, read-only tools stay usable, and the one line says what stands in the way.
#[test]
fn granted_places_are_open() {
    for caller in callers() {
        let site = Site::new(caller);
        std::fs::create_dir(site.path("ws/bin")).unwrap();
        site.give(&site.path("ws/bin"));
        std::fs::copy("/bin/true", site.path("bin/tool")).unwrap();
        std::fs::copy("/bin/true", site.path("ws/tool")).unwrap();
        let spec = format!(
            "{}\n[exec]\ndeny_writable = true\n",
            site.spec("exec_grant_roots = [\"ws/bin\"]")
        );
        site.file("spec.toml", &spec);
        let work = ran(site.inside(&sh(
            "cp /bin/true bin/t; bin/t && echo granted; $T/bin/tool && echo tool; ./tool || echo closed",
        )));
        for line in ["granted", "tool", "closed"] {
            assert!(work.has(line), "{work:?}");
        }
        let refused = site.inside(&["./tool"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(126));
        assert_eq!(
            String::from_utf8_lossy(&refused.stderr),
            format!(
                "ccbox: error: cannot run `./tool`: Permission denied; hint: the command can write `{0}`, and `exec.deny_writable` keeps it from being executed; exec_grant_roots = [\"{0}\"] opens it\n",
                site.path("ws/tool").display()
            )
        );
    }
}
