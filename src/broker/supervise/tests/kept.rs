//! What the supervisor keeps between two calls, against everything that makes it untrue.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Barrier};

use nix::errno::Errno;

use super::harness::{Setup, scratch, short};
use crate::sys::{direct, task};

const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;
const ROUNDS: u32 = 400;

fn setup(dir: &Path) -> Setup {
    Setup::new(dir)
        .pattern(".env")
        .pattern(".git/hooks/*")
        .pattern("shut/*")
        .crowd(2)
}

/// Two threads in turns: this one changes something, the other one acts on it. Says how often the act was wrong.
fn in_turns(change: impl Fn(u32), act: impl Fn(u32) -> bool + Send + 'static) -> usize {
    let turn = Arc::new(Barrier::new(2));
    let other = Arc::clone(&turn);
    let actor = std::thread::spawn(move || {
        let rounds = (0..ROUNDS).filter(|&round| {
            other.wait();
            let right = act(round);
            other.wait();
            !right
        });
        rounds.count()
    });
    for round in 0..ROUNDS {
        change(round);
        turn.wait();
        turn.wait();
    }
    actor.join().unwrap()
}

#[test]
fn another_thread_changes_the_directory() {
    let (_keep, dir) = scratch();
    let top = dir.clone();
    let (wrong, denials) = setup(&dir).run(move || {
        let place = move |round: u32| top.join(format!("d{}", round % 3));
        for n in 0..3 {
            fs::create_dir(place(n)).unwrap();
        }
        let there = place.clone();
        in_turns(
            move |round| {
                let moved = if round % 2 == 0 {
                    nix::unistd::chdir(&place(round))
                } else {
                    let to = File::open(place(round)).unwrap();
                    nix::unistd::fchdir(&to)
                };
                moved.unwrap();
            },
            move |round| {
                let name = format!("f{round}");
                File::create(&name).is_ok() && there(round).join(&name).exists()
            },
        )
    });
    assert_eq!(wrong, 0);
    assert_eq!(short(&denials), []);
}

#[test]
fn another_thread_changes_the_umask() {
    let (_keep, dir) = scratch();
    let (wrong, denials) = setup(&dir).run(|| {
        let mask = |round: u32| (round * 9) & 0o77;
        in_turns(
            move |round| task::set_umask(mask(round)),
            move |round| {
                let name = format!("f{round}");
                File::create(&name).is_ok()
                    && fs::metadata(&name)
                        .is_ok_and(|meta| meta.mode() & 0o777 == 0o666 & !mask(round))
            },
        )
    });
    assert_eq!(wrong, 0);
    assert_eq!(short(&denials), []);
}

/// A child made by clone(2) with CLONE_FS moves its parent along.
const SHARED: &str = r#"
    use strict;
    use Config;
    my $clone = $Config{archname} =~ /x86_64/ ? 56 : 220;
    pipe(my $order, my $give) or die; pipe(my $done, my $tell) or die;
    mkdir "$ENV{TOP}/d$_" for 0 .. 2;
    chdir "$ENV{TOP}/d0"; open(my $f, ">", "first") or die; close $f;
    my $child = syscall($clone, 0x200 | 17, 0, 0, 0, 0);
    if ($child == 0) {
        while (sysread($order, my $n, 1)) { chdir "$ENV{TOP}/d$n" or die; umask(7 * $n); syswrite($tell, "x") }
        exit 0;
    }
    my $wrong = 0;
    for my $round (1 .. 400) {
        my $n = $round % 3;
        syswrite($give, $n); sysread($done, my $x, 1);
        open(my $f, ">", "f$round") or die "f$round: $!"; close $f;
        my $mode = (stat "$ENV{TOP}/d$n/f$round")[2];
        $wrong++ unless defined $mode && ($mode & 0777) == (0666 & ~(7 * $n));
    }
    print $wrong;
    kill 'KILL', $child;
"#;

fn perl(script: &str, top: &Path) -> Output {
    let mut perl = Command::new("perl");
    perl.args(["-e", script]).env("TOP", top).output().unwrap()
}

#[test]
fn a_process_that_shares_the_directory_changes_it() {
    let (_keep, dir) = scratch();
    let top = dir.clone();
    let (output, denials) = setup(&dir).run(move || perl(SHARED, &top));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said == "0", "{said} {output:?}");
    assert_eq!(short(&denials), []);
}

#[test]
fn children_that_share_memory_go_elsewhere() {
    let (_keep, dir) = scratch();
    let ((), denials) = setup(&dir).run(|| {
        fs::create_dir("d").unwrap();
        for round in 0..50 {
            File::create(format!("before{round}")).unwrap();
            // Made by vfork(2) or its like, with a chdir(2) before it executes.
            let status = Command::new("sh")
                .args([
                    "-c",
                    &format!("umask 077; : > in{round}; cd ..; : > out{round}"),
                ])
                .current_dir("d")
                .status()
                .unwrap();
            assert!(status.success());
            File::create(format!("after{round}")).unwrap();
            let mode = |name: String| fs::metadata(name).unwrap().mode() & 0o777;
            assert_eq!(mode(format!("d/in{round}")), 0o600);
            assert_eq!(mode(format!("out{round}")), 0o600);
            assert_eq!(mode(format!("before{round}")), 0o644);
            assert_eq!(mode(format!("after{round}")), 0o644);
        }
    });
    assert_eq!(short(&denials), []);
}

/// posix_spawn(3) opens a file in a child that shares its parent's memory, and executes a program there.
const SPAWN: &str = r#"
import os
for n in range(60):
    to = (os.POSIX_SPAWN_OPEN, 1, f"out{n}", os.O_WRONLY | os.O_CREAT, 0o644)
    names = [f"{letter}{n}" for letter in "abc"]
    child = os.posix_spawn("/usr/bin/touch", ["touch", *names], os.environ, file_actions=[to])
    assert os.waitpid(child, 0)[1] == 0, n
"#;

/// A program is read in its own memory, not in that of the program before, which is still there.
#[test]
fn a_program_replaces_another() {
    let (_keep, dir) = scratch();
    let (output, denials) = setup(&dir).run(|| {
        let mut python = Command::new("python3");
        python.args(["-c", SPAWN]).output().unwrap()
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 240);
    assert_eq!(short(&denials), []);
}

/// How a directory whose path is known comes to have another one.
#[test]
fn directories_move_after_they_were_seen() {
    let (_keep, dir) = scratch();
    let top = dir.clone();
    let (wrong, _) = setup(&dir).run(move || {
        let mut wrong = Vec::new();
        for round in 0..20 {
            let x = format!("x{round}");
            fs::create_dir_all(format!("{x}/a/hooks")).unwrap();
            let hooks = File::open(format!("{x}/a/hooks")).unwrap();
            let at = hooks.as_raw_fd();
            direct::open_at(at, c"seen", CREATE, 0o644).unwrap();
            fs::remove_file(format!("{x}/a/hooks/seen")).unwrap();
            // By its own name, by that of a directory above, and by an exchange.
            match round % 3 {
                0 => fs::rename(format!("{x}/a/hooks"), format!("{x}/shut")).unwrap(),
                1 => fs::rename(format!("{x}/a"), format!("{x}/.git")).unwrap(),
                _ => {
                    fs::create_dir(format!("{x}/shut")).unwrap();
                    let (from, to) = (format!("{x}/a/hooks"), format!("{x}/shut"));
                    nix::fcntl::renameat2(
                        nix::fcntl::AT_FDCWD,
                        from.as_str(),
                        nix::fcntl::AT_FDCWD,
                        to.as_str(),
                        nix::fcntl::RenameFlags::RENAME_EXCHANGE,
                    )
                    .unwrap();
                }
            }
            let got = direct::open_at(at, c"pre-commit", CREATE, 0o755).map(drop);
            let made = [".git/hooks", "shut"].map(|dir| top.join(&x).join(dir).join("pre-commit"));
            if got != Err(Errno::EACCES) || made.iter().any(|made| made.exists()) {
                wrong.push((round, got));
            }
        }
        wrong
    });
    assert_eq!(wrong, []);
}

/// The same with the working directory.
#[test]
fn the_working_directory_moves_after_it_was_seen() {
    let (_keep, dir) = scratch();
    let ((), _) = setup(&dir).run(|| {
        fs::create_dir_all("x/hooks").unwrap();
        let top = std::env::current_dir().unwrap();
        std::env::set_current_dir("x/hooks").unwrap();
        File::create("seen").unwrap();
        fs::remove_file("seen").unwrap();
        fs::rename(top.join("x"), top.join(".git")).unwrap();
        let got = File::create("pre-commit").unwrap_err().raw_os_error();
        assert_eq!(got, Some(libc::EACCES));
        fs::rename(top.join(".git"), top.join("y")).unwrap();
        File::create("pre-commit").unwrap();
    });
    assert!(dir.join("y/hooks/pre-commit").exists());
}

/// A removed directory's inode number is given to the next one on some file systems.
#[test]
fn a_new_directory_is_not_the_removed_one() {
    let (_keep, dir) = scratch();
    let ((), _) = setup(&dir).run(|| {
        fs::create_dir(".git").unwrap();
        for _ in 0..50 {
            fs::create_dir("plain").unwrap();
            File::create("plain/seen").unwrap();
            fs::remove_file("plain/seen").unwrap();
            fs::remove_dir("plain").unwrap();
            fs::create_dir(".git/hooks").unwrap();
            let hooks = File::open(".git/hooks").unwrap();
            let got = direct::open_at(hooks.as_raw_fd(), c"pre-commit", CREATE, 0o755);
            assert_eq!(got.map(drop), Err(Errno::EACCES));
            fs::remove_dir(".git/hooks").unwrap();
        }
    });
}

/// Paths that start at the tree's own name, with more slashes than needed: what follows is not a path from the root.
#[test]
fn slashes_lead_nowhere_else() {
    let (_keep, dir) = scratch();
    let (_other, elsewhere) = scratch();
    let top = dir.clone();
    let aim = elsewhere.clone();
    let ((), denials) = setup(&dir).run(move || {
        fs::create_dir("sub").unwrap();
        let path = |text: String| std::ffi::CString::new(text).unwrap();
        let (top, aim) = (top.display(), aim.display());
        for n in 0..3 {
            let slashes = "/".repeat(n);
            let evil = path(format!("{top}/{slashes}{aim}/f"));
            let got = direct::open_at(libc::AT_FDCWD, &evil, CREATE, 0o644);
            assert_eq!(got.map(drop), Err(Errno::ENOENT));
            for tail in [format!("sub/{slashes}g{n}"), format!("./{slashes}h{n}")] {
                let good = path(format!("{top}/{slashes}{tail}"));
                direct::open_at(libc::AT_FDCWD, &good, CREATE, 0o644).unwrap();
            }
            let denied = path(format!("{top}/{slashes}sub/{slashes}.env"));
            let got = direct::open_at(libc::AT_FDCWD, &denied, CREATE, 0o644);
            assert_eq!(got.map(drop), Err(Errno::EACCES));
        }
    });
    assert_eq!(denials.len(), 3);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    let names = |path: PathBuf| fs::read_dir(path).unwrap().count();
    assert_eq!((names(dir.clone()), names(dir.join("sub"))), (4, 3));
}

/// A link or a mount on the way, a name that is a link, and a name that becomes one.
#[test]
fn the_short_way_is_left_where_a_link_is() {
    let (_keep, dir) = scratch();
    let (_other, elsewhere) = scratch();
    std::os::unix::fs::symlink(&elsewhere, dir.join("out")).unwrap();
    std::os::unix::fs::symlink(".env", dir.join("final")).unwrap();
    std::os::unix::fs::symlink("sub", dir.join("in")).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    let (errors, denials) = setup(&dir).run(|| {
        File::create("in/made").unwrap();
        let error = |path: &str| File::create(path).unwrap_err().raw_os_error();
        (error("out/f"), error("final"), error("in/.env"))
    });
    let refused = Some(libc::EACCES);
    assert_eq!(errors, (refused, refused, refused));
    assert_eq!(denials.len(), 2);
    assert!(dir.join("sub/made").exists());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
