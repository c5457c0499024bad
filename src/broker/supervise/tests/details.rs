//! What a program may notice of a supervisor that opens for it: locks, busy programs, FIFOs, limits, umask, threads, signals.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::FcntlArg;

use super::harness::{Setup, scratch, short};
use crate::sys::at::How;
use crate::sys::{direct, task};

const CWD: i32 = libc::AT_FDCWD;
#[allow(clippy::cast_possible_truncation)] // small constants
const WHOLE: libc::flock = libc::flock {
    l_type: libc::F_WRLCK as i16,
    l_whence: libc::SEEK_SET as i16,
    l_start: 0,
    l_len: 0,
    l_pid: 0,
};

fn setup(dir: &std::path::Path) -> Setup {
    Setup::new(dir).pattern(".env").pattern(".git/hooks/**")
}

fn sh(script: &str) -> std::process::Output {
    Command::new("sh").args(["-c", script]).output().unwrap()
}

#[test]
fn a_program_can_be_executed_as_soon_as_it_is_written() {
    let (_keep, dir) = scratch();
    let (busy, _) = setup(&dir).crowd(2).run(|| {
        let program = fs::read("/bin/true").unwrap();
        (0..300)
            .filter(|n| {
                let name = format!("p{n}");
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o755)
                    .open(&name)
                    .unwrap();
                file.write_all(&program).unwrap();
                drop(file);
                let status = Command::new(format!("./{name}")).status();
                !status.is_ok_and(|status| status.success())
            })
            .count()
    });
    assert_eq!(busy, 0);
}

#[test]
fn a_lock_goes_with_its_last_descriptor() {
    let (_keep, dir) = scratch();
    let (conflicts, _) = setup(&dir).crowd(2).run(|| {
        let mut conflicts = 0;
        for _ in 0..3000 {
            let file = File::create("lock").unwrap();
            conflicts += usize::from(file.try_lock().is_err());
            drop(file);
            let file = File::create("lock").unwrap();
            let lock = FcntlArg::F_OFD_SETLK(&WHOLE);
            conflicts += usize::from(nix::fcntl::fcntl(&file, lock).is_err());
            drop(file);
        }
        conflicts
    });
    assert_eq!(conflicts, 0);
}

#[test]
fn fifos_are_waited_for_without_holding_anybody_up() {
    let (_keep, dir) = scratch();
    let (took, _) = setup(&dir).run(|| {
        for n in 0..20 {
            let name = CString::new(format!("p{n}")).unwrap();
            direct::make_node(CWD, &name, libc::S_IFIFO | 0o600, 0).unwrap();
        }
        // Asked not to wait.
        let none = fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("p0");
        assert_eq!(none.unwrap_err().raw_os_error(), Some(libc::ENXIO));
        let writers: Vec<_> = (0..20)
            .map(|n| {
                std::thread::spawn(move || {
                    let mut fifo = fs::OpenOptions::new()
                        .write(true)
                        .open(format!("p{n}"))
                        .unwrap();
                    let flags = nix::fcntl::fcntl(&fifo, FcntlArg::F_GETFL).unwrap();
                    assert_eq!(flags & libc::O_NONBLOCK, 0);
                    fifo.write_all(b"through").unwrap();
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        for n in 0..50 {
            fs::write(format!("f{n}"), "x").unwrap();
        }
        let took = start.elapsed();
        for n in 0..20 {
            let mut text = String::new();
            File::open(format!("p{n}"))
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "through");
        }
        for writer in writers {
            writer.join().unwrap();
        }
        // One whose reader never comes is killed, and nobody minds.
        let mut lonely = Command::new("sh")
            .args(["-c", "echo x > p0"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(50));
        lonely.kill().unwrap();
        assert_eq!(lonely.wait().unwrap().signal(), Some(libc::SIGKILL));
        fs::write("last", "x").unwrap();
        took
    });
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_reader_waits_for_a_writer() {
    let (_keep, dir) = scratch();
    let (output, _) = setup(&dir).run(|| {
        // O_RDONLY | O_CREAT traps; the shell opens so for `<>`-less reading only with this trick.
        direct::make_node(CWD, c"p", libc::S_IFIFO | 0o600, 0).unwrap();
        let reader = std::thread::spawn(|| {
            let file = direct::open_at(CWD, c"p", libc::O_RDONLY | libc::O_CREAT, 0o600).unwrap();
            let mut text = String::new();
            File::from(file).read_to_string(&mut text).unwrap();
            text
        });
        std::thread::sleep(Duration::from_millis(100));
        fs::write("p", "late").unwrap();
        reader.join().unwrap()
    });
    assert_eq!(output, "late");
}

#[test]
fn the_callers_limits_hold() {
    let (_keep, dir) = scratch();
    let ((), denials) = setup(&dir).run(|| {
        // Descriptors.
        let output = sh("ulimit -n 5; exec 3>a 4>b 5>c");
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            text.contains("Too many open files") || text.contains("Bad file"),
            "{text}"
        );
        // File sizes: the signal, and without it the errno.
        let output = sh("ulimit -f 1; truncate -s 100k f");
        // GNU truncate uses ftruncate; perl calls truncate(2).
        assert!(!output.status.success());
        let output = sh("echo > g; ulimit -f 1; perl -e 'truncate(\"g\", 100000) or die $!'");
        assert_eq!(
            output
                .status
                .signal()
                .or(output.status.code().map(|c| c - 128)),
            Some(libc::SIGXFSZ)
        );
        let output =
            sh("ulimit -f 1; trap '' XFSZ; perl -e 'truncate(\"g\", 100000) or print $!+0'");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            libc::EFBIG.to_string()
        );
        assert_eq!(fs::metadata("g").unwrap().len(), 1);
        direct::truncate(c"g", 100_000).unwrap();
        assert_eq!(fs::metadata("g").unwrap().len(), 100_000);
    });
    assert_eq!(short(&denials), []);
}

/// The last descriptor that fits is given, and what does not fit leaves no file, wherever it was to be made.
#[test]
fn what_cannot_be_given_is_not_made() {
    let (_keep, dir) = scratch();
    let ((), denials) = setup(&dir).run(|| {
        fs::create_dir("d").unwrap();
        fs::write("old", "x").unwrap();
        let program = r#"
            use Fcntl;
            my ($path, @open) = $ARGV[0];
            for my $n (1 .. 20) {
                my $new = O_CREAT | O_EXCL | O_WRONLY;
                if (sysopen(my $file, "$path$n", $new)) { push @open, $file } else { print $!+0, " "; last }
            }
            for my $name ("$path.new", "old", ".env", "d", "d/../x", "none/x") {
                print sysopen(my $file, $name, O_CREAT | O_EXCL | O_WRONLY) ? "made" : $!+0, " ";
            }
            print scalar(@open), "
";
        "#;
        for path in ["a", "d/a", &format!("{}/d/b", std::env::current_dir().unwrap().display())] {
            let output = Command::new("sh")
                .args(["-c", r#"ulimit -n 12; exec perl -e "$0" "$1""#, program, path])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (errors, made) = text.trim().rsplit_once(' ').unwrap();
            assert_eq!(errors, [libc::EMFILE.to_string().as_str(); 7].join(" "), "{path}");
            let made: usize = made.parse().unwrap();
            let there = (1..=20).filter(|n| std::path::Path::new(&format!("{path}{n}")).exists());
            assert_eq!((there.count(), made), (made, 9), "{path}");
            assert!(!std::path::Path::new(&format!("{path}.new")).exists());
        }
        assert!(!std::path::Path::new("x").exists());
    });
    assert_eq!(short(&denials), []);
}

#[test]
fn every_thread_has_its_own_umask_and_directory() {
    let (_keep, dir) = scratch();
    let ((), denials) = setup(&dir).crowd(2).run(|| {
        for n in 0..4 {
            fs::create_dir(format!("d{n}")).unwrap();
        }
        let threads: Vec<_> = (0..4u32)
            .map(|n| {
                std::thread::spawn(move || {
                    task::own_umask().unwrap();
                    for round in 0..100 {
                        let mask = (n * 9 + round) & 0o77;
                        task::set_umask(mask);
                        nix::unistd::chdir(format!("d{n}").as_str()).unwrap();
                        let name = format!("f{round}");
                        File::create(&name).unwrap();
                        let meta = fs::metadata(&name).unwrap();
                        assert_eq!(meta.mode() & 0o777, 0o666 & !mask);
                        nix::unistd::chdir("..").unwrap();
                        let made = format!("m{n}-{round}");
                        fs::create_dir(&made).unwrap();
                        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o777 & !mask);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    for n in 0..4 {
        assert_eq!(
            fs::read_dir(dir.join(format!("d{n}"))).unwrap().count(),
            100
        );
    }
    assert_eq!(short(&denials), []);
}

#[test]
fn bad_pointers_and_descriptors_are_the_kernels_errors() {
    let (_keep, dir) = scratch();
    setup(&dir).run(|| {
        let flags = libc::O_WRONLY | libc::O_CREAT;
        assert_eq!(
            direct::open_at(CWD, c"", flags, 0o600).unwrap_err(),
            Errno::ENOENT
        );
        assert_eq!(
            direct::open_at(99, c"x", flags, 0o600).unwrap_err(),
            Errno::EBADF
        );
        assert_eq!(
            direct::open_at(-5, c"x", flags, 0o600).unwrap_err(),
            Errno::EBADF
        );
        for address in [0, 1, 4095, usize::MAX, usize::MAX - 4096, 1 << 47, 1 << 63] {
            assert_eq!(
                direct::open_address(address, flags),
                Errno::EFAULT,
                "{address:#x}"
            );
            assert_eq!(
                direct::make_dir_address(address),
                Errno::EFAULT,
                "{address:#x}"
            );
            assert_eq!(
                direct::truncate_address(address),
                Errno::EFAULT,
                "{address:#x}"
            );
        }
        // openat2: sizes.
        for (size, errno) in [
            (0, Errno::EINVAL),
            (23, Errno::EINVAL),
            (4097, Errno::E2BIG),
            (usize::MAX, Errno::E2BIG),
        ] {
            assert_eq!(direct::open_how_sized(c"x", size, 0), errno, "{size}");
        }
        assert_eq!(direct::open_how_sized(c"x", 32, 1), Errno::E2BIG);
        assert_eq!(direct::open_how_sized(c"nothing", 32, 0), Errno::ENOENT);
        // openat2 for a descriptor that cannot be handed over: as on a kernel without the call, so that callers take openat.
        let path_only = |name| {
            let how = How {
                flags: u64::from(libc::O_PATH.cast_unsigned()),
                mode: 0,
                resolve: libc::RESOLVE_NO_SYMLINKS,
            };
            direct::open_how(libc::AT_FDCWD, name, how).unwrap_err()
        };
        assert_eq!(path_only(c"."), Errno::ENOSYS);
        assert_eq!(path_only(c"/"), Errno::ENOSYS);
        assert_eq!(path_only(c"nothing"), Errno::ENOENT);
        // A string that ends where its page does.
        assert_eq!(direct::at_the_end_of_a_page(c"edge", flags), Ok(()));
        assert_eq!(fs::metadata("edge").unwrap().mode() & 0o777, 0o600);
    });
}

#[test]
fn children_of_every_kind_are_served() {
    let (_keep, dir) = scratch();
    let (output, denials) = setup(&dir).crowd(2).run(|| {
        sh(r#"
            set -e
            for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5 6 7 8 9 10; do echo $i-$j > f$i-$j; done) & done; wait
            test $(ls | wc -l) = 80
            find . -name 'f*-1*' | xargs -P4 -n1 rm
            test $(ls | wc -l) = 64
            perl -e 'for (1..20) { my $p = fork; if (!$p) { open(F, ">", "p$_"); print F "x"; close F; exit 0 } } 1 while wait > 0'
            test $(ls p* | wc -l) = 20
        "#)
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(short(&denials), []);
}

#[test]
fn a_denial_that_would_have_failed_anyway_is_not_reported() {
    let (_keep, dir) = scratch();
    fs::create_dir(dir.join("locked")).unwrap();
    fs::write(dir.join("locked/.env"), "x").unwrap();
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join(".env"), "x").unwrap();
    fs::set_permissions(dir.join(".env"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(dir.join("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let ((), denials) = setup(&dir).run(|| {
        let errno = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(errno(fs::write(".env", "")), Some(libc::EACCES));
        assert_eq!(errno(fs::remove_file("locked/.env")), Some(libc::EACCES));
        assert_eq!(errno(fs::create_dir("locked/.env")), Some(libc::EEXIST));
        assert_eq!(errno(fs::remove_dir(".env")), Some(libc::ENOTDIR));
        assert_eq!(errno(fs::remove_file("full/.env")), Some(libc::ENOENT));
        assert_eq!(errno(fs::rename("full/.env", "a")), Some(libc::ENOENT));
    });
    assert_eq!(short(&denials), []);
    fs::set_permissions(dir.join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        fs::metadata(dir.join(".env")).unwrap().mode() & 0o777,
        0o444
    );
    let _ = File::open(dir.join(".env")).unwrap().as_raw_fd();
}
