//! A storm of SIGKILLs, in a process and mount namespace of its own where nobody else's processes and files are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Pid 1 of that namespace: starts, kills in the first 50 ms (twice as long as a start takes, where that is more), every second time the whole process group, and looks at what is there.
const DRIVER: &str = r#"
import os, random, signal, subprocess, sys, time
ccbox, place, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
def seen():
    reap()
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
    spaces = set()
    for p in pids:
        for kind in "user", "pid", "mnt", "net", "ipc", "uts", "cgroup":
            try: spaces.add(os.readlink(f"/proc/{p}/ns/{kind}"))
            except OSError: pass
    sockets = [l.split()[7:] for l in open("/proc/net/unix").readlines()[1:] if place in l or "ccbox" in l]
    return {
        "processes": sorted(pids), "namespaces": sorted(spaces), "sockets": sockets,
        "mounts": open("/proc/self/mountinfo").read(),
        "files": sorted(n for d in ("/tmp", "/dev/shm", place + "/ws") for n in os.listdir(d) if not n.startswith(".ccbox-")),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
    }
def run():
    return subprocess.Popen([ccbox, "run", "--spec", place + "/spec.toml", "--", "sh", "-c",
        "(setsid sleep 71718 &); echo t > $TMPDIR/t; sleep 71718 | cat"],
        cwd=place + "/ws", start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def stands():
    for q in os.listdir("/proc"):
        if q.isdigit():
            try:
                if "71718" in open(f"/proc/{q}/cmdline").read().split("\0")[1:2]: return True
            except OSError: pass
    return False
# How long a run takes here until its command runs; what a first run leaves for good (the lock of all runs) is there from then on.
begun = time.monotonic()
spent = run()
while not stands():
    if spent.poll() is not None or time.monotonic() > begun + 20: sys.exit("the first run did not come to its command")
    time.sleep(0.001)
longest = max(0.05, 2 * (time.monotonic() - begun))
spent.kill(); spent.wait()
while stands(): reap(); time.sleep(0.01)
time.sleep(0.5)
before = seen()
reached = 0
moments = random.Random(7)
for n in range(rounds):
    p = run()
    time.sleep(moments.random() * longest)
    reached += stands()
    (os.killpg if n % 2 else os.kill)(p.pid, signal.SIGKILL)
    p.wait()
    end = time.monotonic() + 10
    while seen() != before:
        if time.monotonic() > end:
            now = seen()
            for kind in now:
                if now[kind] != before[kind]: print("round", n, "left", kind, now[kind], "not", before[kind])
            for q in now["processes"]:
                try: print(q, open(f"/proc/{q}/cmdline").read().split("\0"))
                except OSError: pass
            sys.exit(1)
        time.sleep(0.005)
print("clean" if reached * 10 >= rounds else f"only {reached} of {rounds} came to their command")
"#;

/// `rounds` runs of `ccbox` killed; fails if anything is left.
pub(crate) fn storm(ccbox: &str, engine: &str, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = dir.path().to_str().unwrap();
    for name in ["ws", "home"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::copy(ccbox, dir.path().join("ccbox")).unwrap();
    let spec = format!(
        "engine = \"{engine}\"\nnetwork_enabled = false\n[[bind_mounts]]\nhost_path = \"{place}\"\nread_only = true\n\
         [[bind_mounts]]\nhost_path = \"{place}/ws\"\n[filesystem]\nview = \"host\"\ndeny_write = [\"*.pem\"]\n"
    );
    fs::write(dir.path().join("spec.toml"), spec).unwrap();
    // A /tmp with nothing but this place in it.
    let own = "mount --bind \"$1\" /mnt && mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir -p \"$1\" && mount --bind /mnt \"$1\" && \
               mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec python3 -c \"$3\" \"$1/ccbox\" \"$1\" \"$2\"";
    let mut unshare = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let out = unshare
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            "--net",
            "--mount",
            "--mount-proc",
            "--propagation",
            "private",
        ])
        .args(["sh", "-euc", own, "sh", place, &rounds.to_string(), DRIVER])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", Path::new(place).join("home"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, why) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert_eq!(said, "clean\n", "{engine}: {why}");
}
