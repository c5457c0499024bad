//! TIOCSTI, TIOCLINUX, TIOCSETD: typing into the caller's terminal, whose shell runs outside.

use super::{DONE, Site, callers, python, ran};

const INJECT: &str = "
import fcntl, termios
for request in (termios.TIOCSTI, 0xabcd00000000 | termios.TIOCSTI):
    for byte in b'echo TYPED\\n':
        call(16 if os.uname().machine == 'x86_64' else 29, 0, request, ctypes.byref(ctypes.c_char(byte)))
for request in (0x541c, 0x5423):
    try: fcntl.ioctl(0, request, b'\\3' * 16)
    except OSError as e: print(hex(request), e.errno)
";

/// A terminal with the command in it, and then somebody outside who reads the terminal's next line.
fn on_a_terminal(site: &Site, argv: &[String]) -> Vec<String> {
    let quoted: Vec<String> = argv
        .iter()
        .map(|arg| format!("'{}'", arg.replace('\'', r"'\''")))
        .collect();
    let script = format!(
        "{}\nIFS= read -r -t 1 line; echo \"caller read: $line\"; echo {DONE}",
        quoted.join(" ")
    );
    let file = site.file("bin/session.sh", &script);
    let run = format!("bash {}", file.display());
    // A keyboard nobody touches: at the end of its input, script(1) would type an end of file.
    let keyboard = site.path("bin/keyboard");
    let _ = std::fs::remove_file(&keyboard);
    nix::unistd::mkfifo(
        &keyboard,
        nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR,
    )
    .unwrap();
    let mut command = site.outside(&["script", "-qec", &run, "/dev/null"]);
    command.stdin(
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(&keyboard)
            .unwrap(),
    );
    let output = ran(command);
    output
        .stdout
        .lines()
        .map(|l| l.trim_end().to_owned())
        .collect()
}

/// Where `dev.tty.legacy_tiocsti` is 0 the kernel itself has closed it for those without CAP_SYS_ADMIN.
fn tiocsti_is_open(site: &Site) -> bool {
    let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti");
    super::machine_root(site.caller) || legacy.is_ok_and(|value| value.trim() == "1")
}

#[test]
fn nothing_is_typed_for_the_caller() {
    for caller in callers() {
        let site = Site::new(caller);
        let attack = python(INJECT);
        let typed = "caller read: echo TYPED".to_owned();

        let free = on_a_terminal(&site, &attack);
        assert_eq!(free.contains(&typed), tiocsti_is_open(&site), "{free:?}");

        let ccbox = site.ccbox.to_str().unwrap().to_owned();
        let inside: Vec<String> = [ccbox]
            .into_iter()
            .chain(
                site.ccbox_args(&attack)
                    .into_iter()
                    .map(|arg| arg.into_string().unwrap()),
            )
            .collect();
        let confined = on_a_terminal(&site, &inside);
        assert!(
            confined.contains(&"caller read:".to_owned()),
            "{confined:?}"
        );
        assert!(
            !confined.iter().any(|line| line.contains("TYPED")),
            "{confined:?}"
        );
        // EPERM is the filter; a pseudo-terminal itself would say ENOTTY or take it.
        for request in ["0x541c 1", "0x5423 1"] {
            assert!(confined.contains(&request.to_owned()), "{confined:?}");
            assert!(!free.contains(&request.to_owned()), "{free:?}");
        }
    }
}
