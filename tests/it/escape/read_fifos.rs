//! FIFOs where every open for reading is decided: whoever opens one waits as in the kernel, alone, until a signal or the end of the run.

use std::time::{Duration, Instant};

use super::{Caller, Site, callers, ran, sh};

/// `ro` is shown read-only, `ws` writable; `ws/vault` and `ws/closed` are hidden.
fn place(caller: Caller) -> Site {
    let site = Site::new(caller);
    for dir in ["ro", "ws/vault"] {
        std::fs::create_dir(site.path(dir)).unwrap();
        site.give(&site.path(dir));
    }
    for fifo in ["ro/pipe", "ws/pipe", "ws/vault/pipe", "ws/closed"] {
        nix::unistd::mkfifo(
            &site.path(fifo),
            nix::sys::stat::Mode::from_bits_truncate(0o644),
        )
        .unwrap();
        site.give(&site.path(fifo));
    }
    let t = site.dir.path().to_str().unwrap();
    let spec = site.spec("").replace(
        &format!("deny_read = [\"{t}/hidden\"]"),
        &format!("deny_read = [\"{t}/hidden\", \"*.key\", \"{t}/ws/vault\", \"{t}/ws/closed\"]"),
    );
    site.file("spec.toml", &spec);
    site
}

const OPENS: &str = r"
import os, signal, subprocess, sys, threading, time
T = os.environ['T']
class Rang(Exception): pass
def ring(*_): raise Rang
def state(pid): return open('/proc/%d/stat' % pid).read().rsplit(')')[1].split()[0]
def until(what):
    end = time.time() + 20
    while not what():
        if time.time() > end: print('too late'); return
        time.sleep(.01)
for pipe in T + '/ro/pipe', T + '/ws/pipe':
    # Nobody else waits for it.
    waiting = [subprocess.Popen(['cat', pipe]) for _ in range(8)]
    start = time.time()
    for n in range(200): open('/etc/passwd').close()
    print('others', time.time() - start < 10)
    # A signal ends the wait.
    signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, .3)
    try: open(pipe).close(); print('opened')
    except Rang: print('rang')
    # In a thread of many it is the thread's own.
    def late():
        try: open(pipe).close()
        except Rang: print('wrong')
    thread = threading.Thread(target=late); thread.start(); time.sleep(.2)
    print('waits', thread.is_alive())
    # A stop stops, and a continued one waits on.
    for child in waiting: child.send_signal(signal.SIGSTOP)
    until(lambda: all(state(c.pid) == 'T' for c in waiting))
    print('stopped', {state(c.pid) for c in waiting})
    for child in waiting: child.send_signal(signal.SIGCONT)
    until(lambda: all(state(c.pid) == 'S' for c in waiting))
    # A handler that lets calls start again.
    again = subprocess.Popen(['perl', '-e', 'use POSIX; sigaction(SIGUSR1, POSIX::SigAction->new(sub {}, POSIX::SigSet->new, SA_RESTART)); $|=1; print STDERR qq(set\n); open(F, q(<), $ARGV[0]) or die $!; print <F>', pipe], stdout=-1, stderr=-1)
    again.stderr.readline(); time.sleep(.2)
    for n in range(20): again.send_signal(signal.SIGUSR1); time.sleep(.01)
    print('again', again.poll())
    for child in waiting: child.kill()
    print('killed', {c.wait() for c in waiting})
    if pipe.startswith(T + '/ws'):
        with open(pipe, 'w') as f: f.write('through\n')
    else: print('go', flush=True)
    out = again.stdout.read(); thread.join()
    print(out, again.wait())
for pipe in ('vault/pipe', 'closed') if len(sys.argv) < 2 else ():
    for flags in os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_NONBLOCK:
        try: os.close(os.open(pipe, flags)); print('opened')
        except OSError as e: print(pipe, e.errno)
print('__done__')
";

/// Runs it; `ro/pipe` is served from the host.
fn played(site: &Site, mut command: std::process::Command) -> String {
    let pipe = site.path("ro/pipe");
    let mut served = false;
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    let mut line = String::new();
    while std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0 {
        text.push_str(&line);
        if line == "go\n" {
            std::fs::write(&pipe, "through\n").unwrap();
            served = true;
        }
        line.clear();
    }
    child.wait().unwrap();
    assert!(served, "{text}");
    text
}

#[test]
fn a_fifo_waits_as_in_the_kernel() {
    for caller in callers() {
        let site = place(caller);
        let argv = ["/usr/bin/python3", "-c", OPENS];
        let text = played(&site, site.inside(&argv));
        let (waits, hidden) = text.split_once("vault/pipe").unwrap();
        // Control. Hidden ones would wait for ever there.
        let outside = played(
            &site,
            site.outside(&["/usr/bin/python3", "-c", OPENS, "outside"]),
        );
        assert!(outside.starts_with(waits), "{caller:?}: {text}\n{outside}");
        assert!(
            waits.contains(
                "others True\nrang\nwaits True\nstopped {'T'}\nagain None\nkilled {-9}\n"
            ),
            "{text}"
        );
        assert_eq!(
            format!("vault/pipe{hidden}"),
            "vault/pipe 13\nvault/pipe 13\nvault/pipe 13\nclosed 13\nclosed 13\nclosed 13\n__done__\n"
        );
    }
}

/// Who still waits when the command ends, ends with it.
#[test]
fn the_run_ends_although_somebody_waits() {
    for caller in callers() {
        let site = place(caller);
        let start = Instant::now();
        ran(site.inside(&sh(
            "for n in 1 2 3 4 5; do cat ../ro/pipe & cat pipe & done; sleep .3",
        )));
        assert!(start.elapsed() < Duration::from_secs(20), "{caller:?}");
    }
}
