//! Hidden paths in a writable tree, while the host replaces, removes and makes what stands there: a cover goes with the object it stands
//! on, so nothing but the name can hold them.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use super::{Caller, Site, callers, python};

const ROTATIONS: usize = 40;

/// What is hidden in `ws`. `late*` do not exist at the start; `link` leads to `real`, `way` to `far`.
const HIDDEN: [&str; 7] = [
    "file",
    "vault",
    "late",
    "latedir",
    "new/deep/late",
    "link",
    "way/file",
];

fn place(caller: Caller, open: bool) -> Site {
    let site = if open {
        Site::in_the_open(caller)
    } else {
        Site::new(caller)
    };
    for dir in ["ws/vault", "ws/far", "outside"] {
        fs::create_dir(site.path(dir)).unwrap();
        site.give(&site.path(dir));
    }
    for file in [
        "ws/file",
        "ws/vault/in",
        "ws/real",
        "ws/far/file",
        "outside/file",
    ] {
        site.file(file, "FIRST");
    }
    site.file("ws/free", "FREE");
    for (link, target) in [("ws/link", "real"), ("ws/way", "far")] {
        std::os::unix::fs::symlink(target, site.path(link)).unwrap();
    }
    let t = site.dir.path().to_str().unwrap();
    let hidden = HIDDEN.map(|h| format!("\"{t}/ws/{h}\"")).join(", ");
    let spec = site.spec("").replace(
        &format!("deny_read = [\"{t}/hidden\"]"),
        &format!("deny_read = [\"{t}/hidden\", \"{t}/outside/file\", {hidden}]"),
    );
    site.file("spec.toml", &spec);
    site
}

/// Reads all of it as fast as it can, until it is told to stop, by every way that leads there; then tries to make and to move it.
const READER: &str = r"
T = os.environ['T'] + '/ws/'
os.chdir(T)
PATHS = ['file', 'vault/in', 'late', 'latedir/in', 'new/deep/late', 'link', 'way/file', '../outside/file']
seen, errors, tries = set(), set(), 0
def look(path, act):
    try: seen.add(path + ' ' + act())
    except OSError as e: errors.add(e.errno)
def read(path, flags=os.O_RDONLY):
    fd = os.open(path, flags)
    try: return os.read(fd, 100).decode()
    finally: os.close(fd)
def again(path):
    fd = os.open(path, os.O_PATH)
    try: return read('/proc/self/fd/%d' % fd)
    finally: os.close(fd)
def below(fd, name):
    fd = os.open(name, os.O_RDONLY, dir_fd=fd)
    try: return os.read(fd, 100).decode()
    finally: os.close(fd)
held = [(p, os.open(p, os.O_PATH)) for p in ('vault', 'file', 'link')]
print('reading', flush=True)
while not os.path.exists('stop'):
    tries += 1
    for path in 'vault', 'latedir', 'new/deep', 'file', 'late':
        try: held.append((path, os.open(path, os.O_PATH)))
        except OSError: pass
    for path, fd in held:
        look('held ' + path, lambda: read('/proc/self/fd/%d' % fd))
        name = 'late' if path == 'new/deep' else 'in'
        look('below ' + path, lambda: below(fd, name))
    while len(held) > 20: os.close(held.pop(3)[1])
    for path in PATHS:
        look(path, lambda: read(path))
        look(path, lambda: read(path, os.O_RDWR))
        look(path, lambda: again(path))
    look('dir', lambda: ' '.join(os.listdir('vault')) * 0 + 'LISTED')
print('tries', tries > 2, 'seen', sorted(seen), 'free', read('free'))
def tell(name, act):
    try: act(); print(name, 'done')
    except OSError as e: print(name, e.errno)
os.mkdir('mine'); open('mine/in', 'w').write('x'); open('own', 'w').write('x')
for path in 'file', 'late', 'new/deep/late', 'link':
    tell('create', lambda: os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    tell('rename', lambda: os.rename('own', path))
    tell('link', lambda: os.link('own', path))
    tell('symlink', lambda: os.symlink('own', path))
    tell('away', lambda: os.rename(path, 'away'))
    tell('alias', lambda: os.link(path, 'alias', follow_symlinks=False))
for path in 'vault', 'latedir':
    tell('mkdir', lambda: os.mkdir(path))
    tell('rename', lambda: os.rename('mine', path))
    tell('away', lambda: os.rename(path, 'away'))
tell('above', lambda: os.rename('new', 'new2'))
tell('way', lambda: os.rename('way', 'way2'))
tell('free', lambda: os.rename('free', 'free2'))
";

/// What the host does meanwhile. Each content it writes says SECRET.
fn rotate(site: &Site) {
    for n in 0..ROTATIONS {
        for file in ["ws/file", "ws/late", "ws/link", "ws/real", "outside/file"] {
            // Its own place must not show it before.
            site.file("hidden/next", "SECRET");
            match n % 3 {
                0 => drop(fs::remove_file(site.path(file))),
                1 => {}
                _ => {
                    let _ = fs::remove_file(site.path(file));
                    site.file(file, "SECRET");
                }
            }
            fs::rename(site.path("hidden/next"), site.path(file)).unwrap();
        }
        let dirs = ["ws/vault", "ws/latedir", "ws/new/deep", "ws/way"];
        for (nth, dir) in dirs.into_iter().enumerate() {
            let _ = fs::remove_dir_all(site.path("hidden/nextdir"));
            fs::create_dir(site.path("hidden/nextdir")).unwrap();
            site.give(&site.path("hidden/nextdir"));
            for name in ["in", "late", "file"] {
                site.file(&format!("hidden/nextdir/{name}"), "SECRET");
            }
            let to = site.path(dir);
            if fs::symlink_metadata(&to).is_ok_and(|m| m.is_symlink()) {
                fs::remove_file(&to).unwrap();
            }
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            site.give(to.parent().unwrap());
            // Out of all that is shown; the next time it is taken apart.
            let gone = site.path(&format!("hidden/gone{n}-{nth}"));
            if n % 2 == 0 {
                let _ = fs::rename(&to, &gone);
            } else {
                let _ = fs::remove_dir_all(&to);
            }
            fs::rename(site.path("hidden/nextdir"), &to).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    site.file("ws/stop", "");
}

fn played(site: &Site, mut command: std::process::Command) -> (String, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).unwrap();
        text
    });
    out.read_exact(&mut [0; 8]).unwrap();
    rotate(site);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    (text, errors.join().unwrap())
}

#[test]
fn nothing_is_read_of_what_the_host_puts_there() {
    let places = callers().into_iter().flat_map(|c| [(c, true), (c, false)]);
    for (caller, open) in places {
        let site = place(caller, open);
        let (text, errors) = played(&site, site.inside(&python(READER)));
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("tries True seen [] free FREE"),
            "{caller:?} {open}: {text} {errors}"
        );
        let t = site.dir.path().to_str().unwrap();
        for (path, rule) in [
            ("ws/file", "ws/file"),
            ("ws/vault/in", "ws/vault"),
            ("ws/late", "ws/late"),
            ("ws/latedir/in", "ws/latedir"),
            ("ws/new/deep/late", "ws/new/deep/late"),
            ("ws/link", "ws/link"),
            ("ws/way/file", "ws/way/file"),
        ] {
            let told = |l: &str| {
                l.starts_with(&format!(
                    "ccbox: denied file-read-data {t}/{path} [python3 "
                )) && l.contains(&format!("]: deny_read \"{t}/{rule}\" ({t}/spec.toml:"))
            };
            assert!(
                errors.lines().any(told),
                "{caller:?} {open} {path}: {errors}"
            );
        }
        // Nor does the command make or move what is hidden; another name is its own.
        let rest: Vec<&str> = lines.collect();
        let (last, attacks) = rest.split_last().unwrap();
        assert_eq!(*last, "__done__");
        let (free, attacks) = attacks.split_last().unwrap();
        assert_eq!(*free, "free done", "{text}");
        for line in attacks {
            // EACCES, or what the kernel says whatever the rules are: EEXIST.
            let refused = line.ends_with(" 13") || line.ends_with(" 17");
            assert!(refused, "{caller:?} {open}: {line}\n{text}");
        }
        assert!(attacks.len() > 30);
        for kept in [
            "file",
            "late",
            "new/deep/late",
            "link",
            "vault/in",
            "latedir/in",
        ] {
            assert_eq!(site.read(&format!("ws/{kept}")), "SECRET", "{kept}");
        }
        for made in ["away", "alias", "new2", "way2"] {
            assert!(!site.path(&format!("ws/{made}")).exists(), "{made}");
        }

        // Control: outside all of it is seen and done.
        let site = place(caller, open);
        let (text, _) = played(&site, site.outside(&python(READER)));
        for path in [
            "file",
            "vault/in",
            "late",
            "latedir/in",
            "new/deep/late",
            "link",
            "way/file",
        ] {
            assert!(text.contains(&format!("'{path} SECRET'")), "{path}: {text}");
        }
        for act in [
            "create done",
            "rename done",
            "away done",
            "above done",
            "way done",
        ] {
            assert!(text.lines().any(|l| l == act), "{act}: {text}");
        }
    }
}
