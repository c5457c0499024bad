//! The views of semantics 11, caches (45), and what the child gets beside its grants.

use std::path::{Path, PathBuf};

use super::ask::{mounts_at, var, ws};
use crate::host::fs_view::FakeEntry;
use crate::plan::fixture::{
    bind, can_read, can_write, debian, dev, entry, facts, planned, set_cwd, set_var, without_broker,
};
use crate::plan::{Mount, Plan};

#[test]
fn semantics_11_tmp() {
    let fs = debian().dir("/tmp/build").file("/tmp/in.txt", "");
    let mut p = ws();
    let plan = planned(&p, &facts(), &fs);
    assert!(
        matches!(mounts_at(&plan, "/tmp")[..], [Mount::Tmpfs { mode: 0o1777, size: Some(s), .. }] if *s == 4 << 30)
    );
    assert_eq!(var(&plan, "TMPDIR").unwrap(), "/tmp");
    // A bind inside the private one, and one that replaces it.
    p.fs.binds.push(bind("/tmp/build", false));
    assert!(can_write(&planned(&p, &facts(), &fs), "/tmp/build/x"));
    p.fs.binds.push(bind("/tmp", false));
    let plan = planned(&p, &facts(), &fs);
    assert!(matches!(mounts_at(&plan, "/tmp")[..], [Mount::Bind { .. }]));
    // An argument in the hidden one is hinted at, once.
    let got = Plan::resolve(&ws(), &facts(), &["cat".into(), "/tmp/in.txt".into()], &fs).unwrap();
    assert_eq!(
        got.notices
            .iter()
            .filter(|n| n.contains("--ro /tmp/in.txt"))
            .count(),
        1
    );
    // As is a working directory.
    let mut host = facts();
    set_cwd(&mut host, "/tmp/build");
    let e = crate::plan::fixture::plan(&ws(), &host, &fs).unwrap_err();
    assert!(e.to_string().contains("/tmp/build") && e.hint.unwrap().contains("--rw /tmp/build"));
}

#[test]
fn semantics_11_a_bind_at_run_takes_the_mark_with_it() {
    let mut p = ws();
    p.fs.binds.push(bind("/run", true));
    let plan = planned(&p, &facts(), &debian());
    assert!(mounts_at(&plan, "/run/ccbox").is_empty());
    assert!(matches!(
        mounts_at(&plan, "/run")[..],
        [Mount::RoBind { .. }]
    ));
    // The caches find another place.
    assert_eq!(
        var(&plan, "CARGO_HOME").unwrap(),
        "/tmp/.ccbox-caches/cargo"
    );
}

#[test]
fn semantics_11_the_callers_entry_is_generated_where_it_lacks() {
    let mut host = facts();
    host.uid = 4242;
    host.gid = 4242;
    "ci".clone_into(&mut host.user);
    let plan = planned(&ws(), &host, &debian());
    let [Mount::Data { content, .. }] = mounts_at(&plan, "/etc/passwd")[..] else {
        panic!("no generated passwd");
    };
    let text = String::from_utf8_lossy(content);
    assert!(
        text.starts_with("root:x:0:0:") && text.ends_with("ci:x:4242:4242::/home/me:/bin/sh\n")
    );
    assert_eq!(mounts_at(&plan, "/etc/group").len(), 1);
    assert!(mounts_at(&planned(&ws(), &facts(), &debian()), "/etc/passwd").is_empty());
    // A name that would forge a second entry is left out.
    "x:0:0\nevil".clone_into(&mut host.user);
    assert!(mounts_at(&planned(&ws(), &host, &debian()), "/etc/passwd").is_empty());
}

#[test]
fn semantics_45_a_cache_of_another_group_starts_empty() {
    let fs = || {
        debian()
            .dir("/home/me/.cache/pip")
            .dir("/home/me/.cargo/registry")
            .dir("/home/me/.cargo/git")
    };
    let p = dev();
    assert!(planned(&p, &facts(), &fs()).notices.is_empty());
    // `sg docker ccbox …`, or a container whose user is another one than that of its image.
    let mut host = facts();
    host.gid = 4242;
    let plan = planned(&p, &host, &fs());
    let store = host.state_dir.join("caches/xdg/plain");
    assert_eq!(
        mounts_at(&plan, "/home/me/.cache")[..],
        [&Mount::State {
            src: store,
            dst: "/home/me/.cache".into()
        }]
    );
    assert!(
        plan.caches
            .iter()
            .any(|c| c.name == "xdg" && c.how == "empty")
    );
    let told: Vec<_> = plan
        .notices
        .iter()
        .filter(|n| n.contains("starts empty"))
        .collect();
    assert!(
        told.iter().any(|n| n.contains("`/home/me/.cache`")),
        "{told:?}"
    );
}

#[test]
fn co6_d16_resolver_and_certificates_lead_somewhere() {
    let fs = debian()
        .file("/srv/pki/corp.pem", "PEM")
        .link("/home/me/ca.pem", "/srv/pki/corp.pem")
        .link(
            "/etc/ssl/ca-bundle.pem",
            "/var/lib/ca-certificates/ca-bundle.pem",
        )
        .file("/var/lib/ca-certificates/ca-bundle.pem", "PEM");
    let mut host = facts();
    set_var(&mut host, "NODE_EXTRA_CA_CERTS", "/home/me/ca.pem");
    set_var(&mut host, "GIT_SSL_CAINFO", "/home/me/.ssh/id_rsa");
    let plan = planned(&ws(), &host, &fs);
    for p in [
        "/run/systemd/resolve/stub-resolv.conf",
        "/srv/pki/corp.pem",
        "/var/lib/ca-certificates/ca-bundle.pem",
    ] {
        assert!(can_read(&plan, p), "{p}");
    }
    assert!(matches!(
        mounts_at(&plan, "/home/me/ca.pem")[..],
        [Mount::Symlink { .. }]
    ));
    assert!(
        !can_read(&plan, "/home/me/.ssh/id_rsa"),
        "a deny beats ccbox's own needs"
    );
}

#[test]
fn uid_0_configures_no_kernel() {
    let fs = debian()
        .file("/proc/sys/kernel/core_pattern", "core")
        .dir("/proc/irq/1");
    let mut host = facts();
    host.uid = 0;
    let mut p = dev();
    for disabled in [false, true] {
        p.fs.disabled = disabled;
        let plan = planned(&p, &host, &fs);
        for at in ["/proc/sys", "/proc/irq"] {
            assert!(
                matches!(mounts_at(&plan, at)[..], [Mount::RoBind { .. }]),
                "{at}"
            );
        }
        assert!(mounts_at(&plan, "/proc/bus").is_empty());
    }
    assert!(mounts_at(&planned(&dev(), &facts(), &fs), "/proc/sys").is_empty());
}

#[test]
fn semantics_11_other_homes() {
    let fs = debian()
        .dir("/home/linuxbrew/.linuxbrew")
        .with(
            "/root",
            FakeEntry::Dir {
                uid: 0,
                mode: 0o755,
            },
        )
        .dir("/mnt/c/Users/me");
    let mut host = facts();
    host.wsl2 = true;
    let plan = planned(&dev(), &host, &fs);
    for p in ["/home/other/x", "/root/x", "/mnt/c/Users/me"] {
        assert!(!can_read(&plan, p), "{p}");
    }
    assert!(can_read(&plan, "/home/linuxbrew/.linuxbrew/bin/x"));
    let bound = planned(&ws(), &facts(), &fs);
    assert!(can_read(&bound, "/home/linuxbrew/.linuxbrew/bin/x"));
    assert!(!can_read(&bound, "/home/other/x") && !can_read(&bound, "/mnt/c/Users/me"));
    // root's own home in a container.
    let mut host = facts();
    host.uid = 0;
    host.home = "/root".into();
    host.home_real = "/root".into();
    host.state_dir = "/root/.local/state/ccbox".into();
    host.config_dir = "/root/.config/ccbox".into();
    let plan = planned(&dev(), &host, &debian());
    assert!(can_read(&plan, "/root/.profile"));
    // A home made up for a test hides no neighbour of the same user.
    let mut host = facts();
    host.home = "/srv/t/h".into();
    host.home_real = "/srv/t/h".into();
    let plan = planned(
        &dev(),
        &host,
        &debian().dir("/srv/t/h").file("/srv/t/sib", ""),
    );
    assert!(can_read(&plan, "/srv/t/sib"));
}

#[test]
fn the_job_server_in_tmp_is_shown() {
    let fs = debian().with("/tmp/GMfifo7", FakeEntry::Other);
    let mut host = facts();
    set_var(
        &mut host,
        "MAKEFLAGS",
        " -j4 --jobserver-auth=fifo:/tmp/GMfifo7",
    );
    let plan = planned(&ws(), &host, &fs);
    assert!(can_write(&plan, "/tmp/GMfifo7"));
}

#[test]
fn semantics_24_writable_list_and_semantics_20_pins() {
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj/main.c"));
    let plan = planned(&p, &without_broker(), &debian());
    let want = ["/dev", "/home/me/proj", "/proc", "/run", "/tmp", "/var/tmp"];
    assert_eq!(plan.writable, want.map(PathBuf::from));
    let pinned: Vec<_> = plan.pins.iter().map(|p| p.guest.as_path()).collect();
    // Grants, and directories in them: a file (main.c, .git/config) may be replaced by its own tool meanwhile.
    let dirs = ["", ".git", ".git/hooks"].map(|d| Path::new("/home/me/proj").join(d));
    assert_eq!(pinned, dirs);
    assert!(plan.pins[0].dev == 1 && plan.pins[0].ino > 0);
    // Nothing between is mounted where renames are judged by name.
    let plan = planned(&p, &facts(), &debian());
    let pinned: Vec<_> = plan.pins.iter().map(|p| p.guest.as_path()).collect();
    assert_eq!(pinned, [dirs[0].as_path(), dirs[2].as_path()]);
}

#[test]
fn caches_with_a_fresh_and_with_a_used_home() {
    let plan = planned(&dev(), &facts(), &debian());
    for (name, value) in [
        ("npm_config_cache", "/run/ccbox-caches/npm"),
        ("CARGO_HOME", "/run/ccbox-caches/cargo"),
        ("GOPATH", "/run/ccbox-caches/go"),
        ("XDG_CACHE_HOME", "/run/ccbox-caches/xdg"),
        ("MAVEN_ARGS", "-Dmaven.repo.local=/run/ccbox-caches/maven"),
    ] {
        assert_eq!(var(&plan, name).as_deref(), Some(value));
    }
    // cargo without a registry yet: all of ~/.cargo, its credentials covered.
    let fs = debian()
        .dir("/home/me/.cargo/bin")
        .file("/home/me/.cargo/credentials.toml", "T");
    let plan = planned(&dev(), &facts(), &fs);
    assert!(matches!(
        mounts_at(&plan, "/home/me/.cargo")[..],
        [Mount::Overlay { .. }]
    ));
    assert!(!can_read(&plan, "/home/me/.cargo/credentials.toml"));
    assert_eq!(var(&plan, "CARGO_HOME"), None);
    // A home moved by its variable.
    let mut host = facts();
    set_var(&mut host, "CARGO_HOME", "/srv/cargo");
    let plan = planned(
        &dev(),
        &host,
        &debian().dir("/srv/cargo/registry").dir("/srv/cargo/git"),
    );
    assert!(matches!(
        mounts_at(&plan, "/srv/cargo/registry")[..],
        [Mount::Overlay { .. }]
    ));
    // What a grant makes writable is the host's own.
    let mut p = dev();
    p.fs.allow_write.push(entry("/home/me/.npm"));
    let plan = planned(&p, &facts(), &debian().dir("/home/me/.npm"));
    assert!(matches!(
        mounts_at(&plan, "/home/me/.npm")[..],
        [Mount::Bind { .. }]
    ));
    // Switched off, nothing is moved.
    p.fs.caches = crate::policy::Caches::None;
    let plan = planned(
        &p,
        &facts(),
        &debian().dir("/home/me/.npm").dir("/home/me/.cache"),
    );
    assert!(plan.caches.is_empty() && var(&plan, "CARGO_HOME").is_none());
}

#[test]
fn en4_temporary_files() {
    let mut host = facts();
    for (k, v) in [
        ("TMPDIR", "/home/me/mytmp"),
        ("TMP", "/x"),
        ("TMPPREFIX", "/home/me/z"),
    ] {
        set_var(&mut host, k, v);
    }
    let plan = planned(&ws(), &host, &debian());
    assert_eq!(var(&plan, "TMPDIR").unwrap(), "/tmp");
    assert_eq!(var(&plan, "TMP").unwrap(), "/tmp");
    assert_eq!(var(&plan, "TMPPREFIX").unwrap(), "/tmp/zsh");
    let mut p = ws();
    p.fs.disabled = true;
    assert_eq!(
        var(&planned(&p, &host, &debian()), "TMPDIR").unwrap(),
        "/home/me/mytmp"
    );
}
