//! Signals to the outside: by number, to every process, to the process group, which the caller's own processes share.

use std::os::unix::process::CommandExt;

use super::{DONE, Site, callers, python, ran};

#[test]
fn no_signal_leaves_the_sandbox() {
    for caller in callers() {
        let site = Site::new(caller);
        let sleep = || {
            let mut command = site.outside(&["sleep", "50"]);
            command.process_group(0).spawn().unwrap()
        };
        let attack = |pid: u32| {
            python(&format!(
                "
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid in ({pid}, -{pid}, 0, 1, -1):
    for number in (15, 9) if pid not in (0, -1) else (15,):
        try: os.kill(pid, number)
        except OSError: pass
try: signal.pidfd_send_signal(os.pidfd_open({pid}), 9)
except OSError: pass"
            ))
        };
        let mut bystander = sleep();
        let mut command = site.inside(&attack(bystander.id()));
        // The same group: `kill 0` would reach it.
        command.process_group(i32::try_from(bystander.id()).unwrap());
        let confined = ran(command);
        assert_eq!(confined.stdout, format!("{DONE}\n"));
        assert_eq!(bystander.try_wait().unwrap(), None, "{caller:?}");

        // Control: by number only, since `kill -1` outside ends everything the caller has.
        let pid = bystander.id();
        ran(site.outside(&python(&format!("os.kill({pid}, 9)"))));
        assert!(!bystander.wait().unwrap().success());
        // What `timeout` had started is left.
        let group = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::killpg(group, nix::sys::signal::SIGKILL).unwrap();
    }
}
