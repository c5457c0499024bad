// Makes each call once, in a form that has no effect, and prints "name errno" (0: it went through).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void say(const char *name, long result) {
    printf("%s %d\n", name, result == -1 ? errno : 0);
    fflush(stdout);
}
#define CALL(name, ...) (errno = 0, say(#name, syscall(__NR_##name, __VA_ARGS__)))

#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
#define __NR_not_yet 470

int main(void) {
    CALL(mount, 0, 0, 0, 0, 0);
    CALL(umount2, 0, 0);
    CALL(pivot_root, 0, 0);
    CALL(chroot, 0);
    CALL(open_tree, -1, 0, 0);
    CALL(open_tree_attr, -1, 0, 0, 0, 0);
    CALL(move_mount, -1, 0, -1, 0, 0);
    CALL(fsopen, 0, 0);
    CALL(fsconfig, -1, 0, 0, 0, 0);
    CALL(fsmount, -1, 0, 0);
    CALL(fspick, -1, 0, 0);
    CALL(mount_setattr, -1, 0, 0, 0, 0);
    CALL(setns, -1, 0);
    CALL(unshare, CLONE_NEWUSER);
    CALL(unshare, CLONE_NEWNS);
    CALL(unshare, CLONE_FS);
    CALL(clone3, 0, 0);
    CALL(name_to_handle_at, -1, 0, 0, 0, 0);
    CALL(open_by_handle_at, -1, 0, 0);
    CALL(add_key, 0, 0, 0, 0, 0);
    CALL(request_key, 0, 0, 0, 0);
    CALL(keyctl, -1, 0, 0, 0, 0);
    CALL(bpf, -1, 0, 0);
    CALL(userfaultfd, -1);
    CALL(perf_event_open, 0, 0, 0, 0, 0);
    CALL(syslog, -1, 0, 0);
    CALL(acct, 1);
    CALL(swapon, 0, 0);
    CALL(swapoff, 0);
    CALL(reboot, 0, 0, 0, 0);
    CALL(init_module, 0, 0, 0);
    CALL(finit_module, -1, 0, -1);
    CALL(delete_module, 0, 0);
    CALL(kexec_load, 0, 0, 0, -1);
    CALL(kexec_file_load, -1, -1, 0, 0, -1);
    CALL(quotactl, -1, 0, 0, 0);
    CALL(quotactl_fd, -1, 0, 0, 0);
    char params[120] = {0};
    CALL(io_uring_setup, 1, params);
    CALL(io_uring_enter, -1, 0, 0, 0, 0, 0);
    CALL(io_uring_register, -1, 0, 0, 0);
    CALL(not_yet, 0, 0, 0);
    CALL(getppid, 0);

    // SECCOMP_SET_MODE_FILTER without and with SECCOMP_FILTER_FLAG_NEW_LISTENER, and no program: EFAULT where it is looked at.
    errno = 0, say("seccomp_filter", syscall(__NR_seccomp, 1, 0, 0));
    errno = 0, say("seccomp_listener", syscall(__NR_seccomp, 1, 8, 0));

    char c = 'x';
    int discipline = 0;
    errno = 0, say("TIOCSTI", ioctl(-1, TIOCSTI, &c));
    errno = 0, say("TIOCSTI_high", syscall(__NR_ioctl, -1, 0xabcd00000000ul | TIOCSTI, &c));
    errno = 0, say("TIOCLINUX", ioctl(-1, TIOCLINUX, &c));
    errno = 0, say("TIOCSETD", ioctl(-1, TIOCSETD, &discipline));
    errno = 0, say("TIOCGWINSZ", ioctl(-1, TIOCGWINSZ, &c));

    int pair[2];
    errno = 0, say("unix_stream", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    errno = 0, say("unix_dgram", socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    errno = 0, say("pair_stream", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    errno = 0, say("pair_seqpacket", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
    errno = 0, say("pair_dgram", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
    errno = 0, say("pair_raw", socketpair(AF_UNIX, SOCK_RAW, 0, pair));
    errno = 0, say("inet", socket(AF_INET, SOCK_STREAM, 0));
    errno = 0, say("inet6", socket(AF_INET6, SOCK_DGRAM, 0));
    errno = 0, say("route", socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
    errno = 0, say("audit", socket(AF_NETLINK, SOCK_RAW, 9));
    errno = 0, say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    errno = 0, say("packet", socket(AF_PACKET, SOCK_RAW, 0));
    errno = 0, say("inet_packet", socket(AF_INET, SOCK_PACKET, 0));
    errno = 0, say("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));

    // What must go on working.
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    say("fork", child);
    say("ptrace_child", ptrace(PTRACE_ATTACH, child, 0, 0));
    waitpid(child, 0, 0);
    ptrace(PTRACE_DETACH, child, 0, 0);
    say("kill_child", kill(child, SIGKILL));
    waitpid(child, 0, 0);

#ifdef __x86_64__
    // The 32-bit entry (20 is getpid there), the x32 bit, and a call a tracer would have skipped.
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    printf("int80 %ld\n", r < 0 ? -r : 0);
    errno = 0, say("x32", syscall(0x40000000 + 39));
#endif
    errno = 0, say("skipped", syscall(-1));
    return 0;
}
