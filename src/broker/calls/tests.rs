use super::*;

fn trap(call: Call) -> &'static Trap {
    TRAPS.iter().find(|trap| trap.call == call).unwrap()
}

fn with(arg: usize, value: u64) -> [u64; 6] {
    let mut args = [u64::MAX << 32; 6];
    args[arg] = value;
    args
}

#[test]
fn every_call_has_one_row_and_every_number_one_call() {
    for (n, one) in TRAPS.iter().enumerate() {
        for other in &TRAPS[n + 1..] {
            assert_ne!(one.call, other.call);
            assert_ne!(one.name, other.name);
            assert!(one.x86_64.is_none() || one.x86_64 != other.x86_64);
            assert!(one.aarch64.is_none() || one.aarch64 != other.aarch64);
        }
    }
}

#[test]
fn dispatch_finds_what_the_filter_sends() {
    for one in TRAPS {
        assert_eq!(one.call.name(), one.name);
        if let Some(number) = one.native() {
            let number = i32::try_from(number).unwrap();
            assert_eq!(Call::from_number(number), Some(one.call));
        }
    }
    assert_eq!(Call::from_number(-1), None);
    assert_eq!(Call::from_number(0), None);
}

/// The numbers of this processor, against those of the libc crate.
#[test]
fn native_numbers_are_the_systems() {
    let mut system = vec![
        (Call::Openat, libc::SYS_openat),
        (Call::Openat2, libc::SYS_openat2),
        (Call::Truncate, libc::SYS_truncate),
        (Call::Mkdirat, libc::SYS_mkdirat),
        (Call::Mknodat, libc::SYS_mknodat),
        (Call::Symlinkat, libc::SYS_symlinkat),
        (Call::Linkat, libc::SYS_linkat),
        (Call::Renameat2, libc::SYS_renameat2),
        (Call::Unlinkat, libc::SYS_unlinkat),
        (Call::Fchmod, libc::SYS_fchmod),
        (Call::Fchmodat, libc::SYS_fchmodat),
        (Call::Fchmodat2, libc::SYS_fchmodat2),
        (Call::Setxattr, libc::SYS_setxattr),
        (Call::Lsetxattr, libc::SYS_lsetxattr),
        (Call::Fsetxattr, libc::SYS_fsetxattr),
        (Call::Removexattr, libc::SYS_removexattr),
        (Call::Lremovexattr, libc::SYS_lremovexattr),
        (Call::Fremovexattr, libc::SYS_fremovexattr),
        (Call::Fchownat, libc::SYS_fchownat),
        (Call::Utimensat, libc::SYS_utimensat),
        (Call::Umask, libc::SYS_umask),
        (Call::Chdir, libc::SYS_chdir),
        (Call::Fchdir, libc::SYS_fchdir),
        (Call::Clone, libc::SYS_clone),
        (Call::Unshare, libc::SYS_unshare),
        (Call::Execve, libc::SYS_execve),
        (Call::Execveat, libc::SYS_execveat),
        (Call::Flock, libc::SYS_flock),
        (Call::Fcntl, libc::SYS_fcntl),
        (Call::Connect, libc::SYS_connect),
        (Call::Sendto, libc::SYS_sendto),
    ];
    #[cfg(target_arch = "x86_64")]
    system.extend([
        (Call::Open, libc::SYS_open),
        (Call::Creat, libc::SYS_creat),
        (Call::Mkdir, libc::SYS_mkdir),
        (Call::Mknod, libc::SYS_mknod),
        (Call::Symlink, libc::SYS_symlink),
        (Call::Link, libc::SYS_link),
        (Call::Rename, libc::SYS_rename),
        (Call::Renameat, libc::SYS_renameat),
        (Call::Unlink, libc::SYS_unlink),
        (Call::Rmdir, libc::SYS_rmdir),
        (Call::Chmod, libc::SYS_chmod),
        (Call::Chown, libc::SYS_chown),
        (Call::Lchown, libc::SYS_lchown),
        (Call::Utime, libc::SYS_utime),
        (Call::Utimes, libc::SYS_utimes),
        (Call::Futimesat, libc::SYS_futimesat),
    ]);
    for (call, number) in system {
        assert_eq!(
            trap(call).native().map(libc::c_long::from),
            Some(number),
            "{call:?}"
        );
    }
}

#[test]
fn only_opens_that_may_write_trap() {
    for (flags, traps) in [
        (libc::O_RDONLY, false),
        (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY, false),
        (libc::O_PATH | libc::O_NOFOLLOW, false),
        (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_APPEND, false),
        (libc::O_WRONLY, true),
        (libc::O_RDWR, true),
        // Access mode 3 opens for ioctl(2) only, with the permission to write (open(2)).
        (libc::O_ACCMODE, true),
        (libc::O_RDONLY | libc::O_CREAT, true),
        (libc::O_RDONLY | libc::O_TRUNC, true),
        (libc::O_TMPFILE | libc::O_RDWR, true),
    ] {
        let low = u64::from(flags.cast_unsigned());
        for flags in [low, low | 1 << 32, low | u64::MAX << 32] {
            assert_eq!(
                trap(Call::Openat).traps(&with(2, flags)),
                traps,
                "{flags:#o}"
            );
            assert_eq!(trap(Call::Open).traps(&with(1, flags)), traps, "{flags:#o}");
        }
    }
}

#[test]
fn threads_and_forks_pass_and_what_splits_the_working_directory_traps() {
    const THREAD: u64 = 0x003d_0f00; // pthread_create(3)
    const FS: u64 = 0x200;
    for (flags, traps) in [
        (THREAD, false),
        (0x0120_0011, false), // fork(2)
        (0x0000_4111, false), // vfork(2)
        (FS | 0x11, true),
        (FS | 0x100, true),
        (THREAD & !FS, true),
    ] {
        assert_eq!(
            trap(Call::Clone).traps(&with(0, flags)),
            traps,
            "{flags:#x}"
        );
    }
    assert!(trap(Call::Unshare).traps(&with(0, FS)));
    assert!(!trap(Call::Unshare).traps(&with(0, 0x400)));
}

#[test]
fn only_locks_of_open_files_trap() {
    for (command, traps) in [
        (libc::F_OFD_SETLK, true),
        (libc::F_OFD_SETLKW, true),
        (libc::F_SETLEASE, true),
        (libc::F_OFD_GETLK, false),
        (libc::F_SETLK, false),
        (libc::F_SETLKW, false),
        (libc::F_DUPFD_CLOEXEC, false),
        (libc::F_GETFL, false),
    ] {
        let args = with(1, u64::from(command.cast_unsigned()));
        assert_eq!(trap(Call::Fcntl).traps(&args), traps, "{command}");
    }
    for (operation, traps) in [
        (libc::LOCK_SH, true),
        (libc::LOCK_EX | libc::LOCK_NB, true),
        (libc::LOCK_UN, false),
    ] {
        let args = with(1, u64::from(operation.cast_unsigned()));
        assert_eq!(trap(Call::Flock).traps(&args), traps, "{operation}");
    }
}
