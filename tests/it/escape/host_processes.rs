//! The host's processes through /proc: environment, root and working directory of the caller's other programs.

use super::{Site, callers, ran, sh};

const ATTACK: &str = "
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q \"HOST_TOKEN=$MARK\" && echo environment
for root in /proc/[0-9]*/root; do cat $root$T/hidden/secret 2>/dev/null; done
for cwd in /proc/[0-9]*/cwd; do cat $cwd/secret 2>/dev/null; done
echo processes $(ls -d /proc/[0-9]* | wc -l)
";

#[test]
fn the_host_is_not_visible() {
    for caller in callers() {
        let site = Site::new(caller);
        let mark = format!("{}-{caller:?}", std::process::id());
        let mut bystander = site
            .outside(&["sleep", "50"])
            .env("HOST_TOKEN", &mark)
            .current_dir(site.path("hidden"))
            .spawn()
            .unwrap();
        let script = ATTACK.replace("$MARK", &mark);
        let control = ran(site.outside(&sh(&script)));
        let attack = ran(site.inside(&sh(&script)));
        // `timeout` passes the signal on to `sleep`.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(bystander.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        bystander.wait().unwrap();

        assert!(
            control.has("environment") && control.has("SECRET"),
            "{control:?}"
        );
        assert!(
            !attack.has("environment") && !attack.has("SECRET"),
            "{attack:?}"
        );
        let count = attack.stdout.split_whitespace().nth(1).unwrap();
        assert!(count.parse::<u32>().unwrap() < 10, "{attack:?}");
    }
}
