//! A host program replaces a hidden file while the command reads as fast as it can (write new, rename over; remove, make anew).

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use super::{Site, Waiting, callers, python};

/// Reads until it is told to end; prints how often it tried, and everything it ever saw.
const READER: &str = "
import time
F, stop = os.environ['T'] + '/conf/key', os.environ['T'] + '/ws/stop'
tries, seen = 0, set()
print('reading', flush=True)
while tries % 64 or not os.path.exists(stop):
    tries += 1
    try: seen.add(open(F).read())
    except OSError as e: seen.add(e.errno)
print('tries', tries > 1000, 'saw', sorted(map(str, seen)))
for name in 'old', 'new', 'dir/in', 'dir/new':
    try: print(name, open(os.environ['T'] + '/conf/' + name).read())
    except OSError as e: print(name, e.errno)
";

const ROTATIONS: usize = 45;

fn place(site: &Site) {
    fs::create_dir_all(site.path("conf/dir")).unwrap();
    for name in ["key", "old", "dir/in"] {
        site.file(&format!("conf/{name}"), "FIRST");
    }
    for name in ["conf", "conf/dir"] {
        site.give(&site.path(name));
    }
    let t = site.dir.path().to_str().unwrap();
    let spec = site.spec("").replace("/hidden\"", "/conf/key\"");
    assert!(spec.contains(&format!("{t}/conf/key")));
    site.file("spec.toml", &spec);
}

/// What the reader prints, with the file replaced meanwhile.
fn replaced(site: &Site, mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 8]).unwrap();
    for n in 0..ROTATIONS {
        site.file("conf/next", "SECRET");
        if n % 5 == 4 {
            fs::remove_file(site.path("conf/key")).unwrap();
        }
        fs::rename(site.path("conf/next"), site.path("conf/key")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    site.file("conf/new", "LATER");
    site.file("conf/dir/new", "LATER");
    site.file("ws/stop", "");
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn nothing_is_read_of_what_takes_its_place() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        place(&site);
        let text = replaced(&site, site.inside(&python(READER)));
        // The old neighbour stays readable, and what is made deeper down; a new neighbour is the price.
        let expected = "tries True saw ['13', '2']\nold FIRST\nnew 13\ndir/in FIRST\ndir/new LATER\n__done__\n";
        let without_gaps = expected.replace("['13', '2']", "['13']");
        assert!(
            [expected, &without_gaps].contains(&text.as_str()),
            "{caller:?}: {text}"
        );

        // Control: outside all of it is seen.
        let site = Site::in_the_open(caller);
        place(&site);
        let text = replaced(&site, site.outside(&python(READER)));
        assert!(
            text.contains("'FIRST', 'SECRET'") || text.contains("'SECRET'"),
            "{text}"
        );
        assert!(text.contains("new LATER"), "{text}");
    }
}

/// A file that does not exist yet is closed too.
#[test]
fn nothing_is_read_of_what_is_made_later() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        place(&site);
        fs::remove_file(site.path("conf/key")).unwrap();
        let command = site.inside(&python(
            "print('reading', flush=True)
sys.stdin.read()
for name in 'key', 'old':
    try: print(name, open(os.environ['T'] + '/conf/' + name).read())
    except OSError as e: print(name, e.errno)",
        ));
        let waiting = Waiting::new(command, "reading");
        site.file("conf/key", "SECRET");
        let (text, _) = waiting.rest();
        assert_eq!(text, "key 13\nold FIRST\n__done__\n", "{caller:?}");
    }
}

/// What the command was handed stays readable, under every name it has: a file in the same directory and one that no mount shows.
#[test]
fn what_was_handed_over_can_be_reopened() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        place(&site);
        for file in ["conf/old", "bin/given"] {
            let input = if file == "bin/given" {
                let path =
                    std::path::Path::new("/var/tmp").join(format!("given-{}", std::process::id()));
                fs::write(&path, "FIRST").unwrap();
                let opened = fs::File::open(&path).unwrap();
                fs::remove_file(path).unwrap();
                opened
            } else {
                fs::File::open(site.path(file)).unwrap()
            };
            let mut command = site.inside(&["sh", "-c", "cat /dev/stdin; cat /proc/self/fd/0; echo x >> /dev/stderr; echo y | cat /dev/stdin"]);
            let out = command.stdin(input).output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&out.stdout),
                "FIRSTFIRSTy\n",
                "{file}"
            );
        }
    }
}

/// The price of the floor is told where somebody looks for the reason: after a command has failed, and only then.
#[test]
fn what_became_unreadable_is_named_after_a_failure() {
    for (ends, told) in [("exit 3", true), ("exit 0", false)] {
        let site = Site::in_the_open(callers()[0]);
        place(&site);
        let script = format!("echo reading; read go; cat ../conf/new ../conf/old; {ends}");
        let waiting = Waiting::new(site.inside(&["sh", "-c", &script]), "reading");
        for name in ["conf/new", "conf/next"] {
            site.file(name, "LATER");
        }
        fs::rename(site.path("conf/next"), site.path("conf/key")).unwrap();
        let (text, stderr) = waiting.rest();
        assert_eq!(text, "FIRST");
        let line = format!(
            "ccbox: notice: made or replaced on the host during this run, so not readable inside before the next one: `{}/conf/new` (hidden files lie beside)",
            site.dir.path().display()
        );
        assert_eq!(stderr.lines().any(|l| l == line), told, "{stderr}");
    }
}

/// With `--trace` what the floor refuses is told with path and process: the hidden file with its rule, what the host has put beside it
/// with the reason. What can be read is not told.
#[test]
fn what_the_floor_refuses_is_told_on_request() {
    for caller in callers() {
        let site = Site::in_the_open(caller);
        place(&site);
        let mut command = site.inside(&["sh", "-c", "echo reading; read go; cat ../conf/key ../conf/new ../conf/made/in ../conf/old ../conf/dir/new ../conf/nothing; head -c1 ../conf/key; (: <../conf/new); ls ../conf/made; cat /dev/stdin </dev/null"]);
        let argv: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let at = argv.iter().position(|a| a == "--spec").unwrap();
        let mut argv = argv;
        argv.insert(at, "--trace".into());
        let mut traced = site.outside(&[site.ccbox.as_os_str()]);
        traced.args(&argv[argv.iter().position(|a| a == "run").unwrap()..]);
        command = traced;
        let waiting = Waiting::new(command, "reading");
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::create_dir(site.path("conf/made")).unwrap();
        site.give(&site.path("conf/made"));
        for name in ["conf/new", "conf/next", "conf/made/in", "conf/dir/new"] {
            site.file(name, "LATER");
        }
        fs::rename(site.path("conf/next"), site.path("conf/key")).unwrap();
        let (text, stderr) = waiting.rest();
        assert_eq!(text, "FIRSTLATERin\n", "{caller:?}: {stderr}");
        let t = site.dir.path().to_str().unwrap();
        let mut told: Vec<String> = stderr
            .lines()
            .filter_map(|l| l.strip_prefix("ccbox: denied file-read-data "))
            .map(|l| {
                let (head, rest) = l.split_once(" [").unwrap();
                let (who, rule) = rest.split_once("]: ").unwrap();
                let program = who.split(' ').next().unwrap();
                let rule = rule.split(" (").next().unwrap();
                format!("{head} [{program}]: {rule}").replace(t, "T")
            })
            .collect();
        told.sort();
        let beside = "made or replaced on the host during this run, beside a hidden file; readable in the next one";
        assert_eq!(
            told,
            [
                "T/conf/key [cat]: deny_read \"T/conf/key\"".to_owned(),
                "T/conf/key [head]: deny_read \"T/conf/key\"".to_owned(),
                format!("T/conf/made/in [cat]: {beside}"),
                format!("T/conf/new [cat]: {beside}"),
                format!("T/conf/new [sh]: {beside}"),
            ],
            "{caller:?}: {stderr}"
        );
    }
}
