//! Plain use: what may be done is done, what may not is refused and reported, and the host sees the same.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use super::harness::{Setup, scratch, short};
use crate::broker::supervise::Cause;

#[test]
fn files_are_made_and_changed_and_denied_names_are_not() {
    let (_keep, dir) = scratch();
    fs::write(dir.join(".env"), "secret").unwrap();
    let ((), denials) = Setup::new(&dir).pattern(".env").pattern("*.pem").run(|| {
        fs::write("a", "one").unwrap();
        fs::OpenOptions::new()
            .append(true)
            .open("a")
            .unwrap()
            .write_all(b" two")
            .unwrap();
        fs::create_dir("d").unwrap();
        fs::create_dir_all("d/e/f").unwrap();
        fs::rename("a", "d/e/a").unwrap();
        symlink("d/e/a", "link").unwrap();
        fs::write("link", "through the link").unwrap();
        fs::hard_link("d/e/a", "hard").unwrap();
        fs::set_permissions("hard", fs::Permissions::from_mode(0o640)).unwrap();
        fs::remove_file("link").unwrap();
        let refused = |result: std::io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EACCES));
        };
        refused(fs::write(".env", "x"));
        refused(fs::write("d/x.pem", "x"));
        refused(fs::rename("hard", "d/.env"));
        refused(fs::rename(".env", "b"));
        refused(fs::remove_file(".env"));
        refused(fs::hard_link(".env", "b"));
        refused(fs::hard_link("hard", "b.pem"));
        refused(symlink("x", "d/.ENV"));
        refused(fs::create_dir("x.PEM"));
        refused(fs::set_permissions(
            ".env",
            fs::Permissions::from_mode(0o666),
        ));
        assert_eq!(fs::read_to_string(".env").unwrap(), "secret");
    });
    assert_eq!(
        fs::read_to_string(dir.join("hard")).unwrap(),
        "through the link"
    );
    assert_eq!(
        fs::metadata(dir.join("hard")).unwrap().mode() & 0o7777,
        0o640
    );
    assert_eq!(fs::read_to_string(dir.join(".env")).unwrap(), "secret");
    assert!(!dir.join("link").exists() && !dir.join("d/x.pem").exists());
    let (env, pem) = (Cause::Rule(0), Cause::Rule(1));
    assert_eq!(
        short(&denials),
        [
            ("write", dir.join(".env"), env.clone()),
            ("create", dir.join("d/x.pem"), pem.clone()),
            ("rename-to", dir.join("d/.env"), env.clone()),
            ("rename", dir.join(".env"), env.clone()),
            ("unlink", dir.join(".env"), env.clone()),
            ("link", dir.join(".env"), env.clone()),
            ("link", dir.join("b.pem"), pem.clone()),
            ("symlink", dir.join("d/.ENV"), env.clone()),
            ("mkdir", dir.join("x.PEM"), pem),
            ("chmod", dir.join(".env"), env),
        ]
    );
    assert!(
        denials
            .iter()
            .all(|d| d.pid == std::process::id().cast_signed())
    );
}

#[test]
fn programs_work_inside() {
    let (_keep, dir) = scratch();
    let script = r#"
        set -e
        mkdir -p a/b/c && echo hello > a/b/c/f && cp -a a copy && mv copy moved && rm -r a
        echo more >> moved/b/c/f && ln -s moved/b/c/f l && cat l > out && chmod 600 out
        (umask 077; echo x > private; mkdir privdir); echo y > public
        mkfifo p; (cat p > got &) ; echo through > p
        for i in 1 2 3 4 5 6 7 8 9; do test -s got && break; sleep 0.1; done
        printf 'int main(){return 7;}' > m.c && gcc -o m m.c; ./m || test $? = 7
        tar cf t.tar moved && mkdir un && tar xf t.tar -C un
        sed -i s/hello/bye/ un/moved/b/c/f
        exec 3<>rw; echo rw >&3; exec 3>&-; exec 4<rw; test "$(cat /proc/self/fd/4)" = rw
        echo again > /dev/fd/1 > redirected
    "#;
    let (output, denials) = Setup::new(&dir)
        .pattern(".env")
        .exempt("/dev/shm".as_ref())
        .run(move || {
            Command::new("sh")
                .args(["-xc", script])
                .env("TMPDIR", "/dev/shm")
                .output()
                .unwrap()
        });
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(short(&denials), []);
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("out"), "hello\nmore\n");
    assert_eq!(read("un/moved/b/c/f"), "bye\nmore\n");
    assert_eq!(read("got"), "through\n");
    let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().mode() & 0o777;
    assert_eq!(
        [
            mode("private"),
            mode("privdir"),
            mode("public"),
            mode("out")
        ],
        [0o600, 0o700, 0o644, 0o600]
    );
}

#[test]
fn git_works_inside_and_its_hooks_do_not() {
    let (_keep, dir) = scratch();
    let script = r"
        set -e
        export GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
        git init -q r && cd r
        git config user.name x && git config user.email x@x
        for i in 1 2 3; do echo $i > f && git add f && git commit -qm $i; done
        git checkout -q -b side HEAD~1 && echo s > s && git add s && git commit -qm side
        git checkout -q - && git merge -q side -m merged && git gc -q && git rebase -q HEAD~1
        git worktree add -q ../linked side && git -C ../linked status --short
        cd .. && git clone -q r c && git -C c log --oneline | wc -l
        rm -rf c
        if git -C r config core.fsmonitor evil; then exit 9; fi
        if echo evil > r/.git/hooks/pre-commit; then exit 8; fi
        exit 0
    ";
    let mut setup = Setup::new(&dir).pattern(".env");
    setup.plan.git = true;
    let (output, denials) =
        setup.run(move || Command::new("bash").args(["-xc", script]).output().unwrap());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!dir.join("r/.git/hooks/pre-commit").exists());
    let said: Vec<_> = denials.iter().map(|d| (d.action, &d.cause)).collect();
    assert!(
        matches!(said[..], [("rename-to", Cause::Git(config)), ("create", Cause::Git(_))] if config.contains("core.fsmonitor=evil")),
        "{said:?}"
    );
}

#[test]
fn a_single_file_can_be_a_tree() {
    let (_keep, dir) = scratch();
    fs::create_dir(dir.join("w")).unwrap();
    fs::write(dir.join("one"), "old").unwrap();
    fs::write(dir.join("other"), "old").unwrap();
    let mut setup = Setup::new(&dir.join("w")).pattern(".env");
    let mut tree = setup.plan.trees[0].clone();
    tree.guest = dir.join("one");
    tree.host.clone_from(&tree.guest);
    tree.top.clone_from(&tree.guest);
    setup.plan.trees.push(tree);
    let (one, other) = (dir.join("one"), dir.join("other"));
    let ((), denials) = setup.run(move || {
        fs::write(&one, "new").unwrap();
        fs::set_permissions(&one, fs::Permissions::from_mode(0o600)).unwrap();
        nix::unistd::truncate(&one, 2).unwrap();
        assert!(fs::write(&other, "new").is_err());
        assert!(fs::remove_file(&one).is_err());
        assert!(fs::rename(&one, &other).is_err());
    });
    assert_eq!(fs::read_to_string(dir.join("one")).unwrap(), "ne");
    assert_eq!(fs::read_to_string(dir.join("other")).unwrap(), "old");
    assert_eq!(short(&denials), []);
}

#[test]
fn outside_of_the_trees_the_floor_decides() {
    let (_keep, dir) = scratch();
    let (_keep2, other) = scratch();
    let (_keep3, free) = scratch();
    fs::write(other.join("f"), "host").unwrap();
    let (there, open) = (other.clone(), free.clone());
    let ((), denials) = Setup::new(&dir).pattern(".env").exempt(&free).run(move || {
        for result in [
            fs::write(there.join("f"), "x"),
            fs::write(there.join("new"), "x"),
            fs::create_dir(there.join("d")),
            fs::remove_file(there.join("f")),
            fs::rename(there.join("f"), there.join("g")),
            nix::unistd::truncate(&there.join("f"), 0).map_err(Into::into),
            fs::OpenOptions::new()
                .read(true)
                .extra_flags(libc::O_TRUNC)
                .open(there.join("f"))
                .map(drop),
        ] {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EACCES));
        }
        fs::write(open.join(".env"), "x").unwrap();
        nix::unistd::truncate(&open.join(".env"), 0).unwrap();
        fs::rename(open.join(".env"), open.join("y")).unwrap();
    });
    assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "host");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(free.join("y")).unwrap(), "");
    assert_eq!(short(&denials), []);
}

trait Flags {
    fn extra_flags(&mut self, flags: i32) -> &mut Self;
}

impl Flags for fs::OpenOptions {
    fn extra_flags(&mut self, flags: i32) -> &mut Self {
        std::os::unix::fs::OpenOptionsExt::custom_flags(self, flags)
    }
}
