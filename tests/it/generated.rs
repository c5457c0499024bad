//! Man pages and completions that are checked in are those of the clap tree, lint clean, and load in real shells.
//!
//! `CCBOX_BLESS=1 cargo test --test it generated` rewrites them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ccbox::cli::args::command;
use ccbox::cli::pages::PAGES;
use clap_complete::aot::{Bash, Fish, Zsh, generate};

use crate::support::program;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Date of the pages, as man(7) wants one; changed by hand with a release.
const DATE: &str = "2025-11-30";

/// Sections that belong to the whole program, for ccbox.1.
const COMMON: &str = r#".SH ENVIRONMENT
.TP
\fBCCBOX_SPEC\fR
A spec file, as with \fB\-\-spec\fR, where none is given.
.TP
\fBCCBOX_SANDBOX\fR
\fBrequire\fR, \fBon\fR or \fBoff\fR, as with \fB\-\-sandbox\fR; a lowering is announced.
.TP
\fBNO_COLOR\fR, \fBCLICOLOR\fR, \fBCLICOLOR_FORCE\fR
Colour on standard error.
.PP
Inside, \fBCCBOX\fR is 1, \fBCCBOX_BACKEND\fR names the backend that really runs, \fBCCBOX_SESSION_ID\fR the run.
\fBTMPDIR\fR is private to the run.
.SH FILES
.TP
\fI/etc/ccbox/managed.toml\fR
The ceiling set by the administrator; owned by root.
.TP
\fI$XDG_CONFIG_HOME/ccbox/config.toml\fR
The user's own rules.
.TP
\fIccbox.toml\fR, \fI.ccbox.toml\fR
The project's rules, in the current directory or above it up to the repository's root. Only tightening keys count until
\fBccbox trust\fR.
.TP
\fI$XDG_STATE_HOME/ccbox\fR
Records of trust and of denials, and private caches.
.TP
\fI/tmp/.ccbox\-UID\fR
A lock and a count, by which the runs of a user wait for each other.
.SH EXAMPLES
.nf
ccbox run \-\- make test
ccbox run \-\-spec spec.toml \-\- cargo build
ccbox run \-\-allow\-host example.com \-\- curl https://example.com/
ccbox check write .git/hooks/pre\-commit
.fi
.SH "SEE ALSO"
\fBccbox\-run\fR(1), \fBccbox\-explain\fR(1), \fBccbox\-check\fR(1), \fBccbox\-probe\fR(1), \fBccbox.toml\fR(5), \fBbwrap\fR(1)
"#;

/// Every page made from the clap tree: file name → text.
fn pages() -> BTreeMap<String, String> {
    let mut tree = command();
    tree.build();
    let mut out = BTreeMap::new();
    page(&tree, "ccbox", &mut out);
    out
}

fn page(cmd: &clap::Command, name: &str, out: &mut BTreeMap<String, String>) {
    // Leaked: clap takes names for the life of the program.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let shown = cmd
        .clone()
        .name(title)
        .display_name(title)
        .disable_help_subcommand(true);
    let man = clap_mangen::Man::new(shown)
        .title(name.to_uppercase())
        .date(DATE)
        .source(format!("ccbox {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text).unwrap();
    man.render_name_section(&mut text).unwrap();
    man.render_synopsis_section(&mut text).unwrap();
    man.render_description_section(&mut text).unwrap();
    man.render_options_section(&mut text).unwrap();
    let shown_children: Vec<_> = cmd.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    if !shown_children.is_empty() {
        man.render_subcommands_section(&mut text).unwrap();
    }
    if cmd.get_after_long_help().is_some() {
        let mut extra = Vec::new();
        man.render_extra_section(&mut extra).unwrap();
        let extra = String::from_utf8(extra).unwrap();
        text.extend(
            extra
                .replace(".SH EXTRA\n", ".SH \"EXIT STATUS\"\n")
                .bytes(),
        );
    }
    let mut text = String::from_utf8(text).unwrap();
    if name == "ccbox" {
        text.push_str(COMMON);
    } else {
        text.push_str(".SH \"SEE ALSO\"\n\\fBccbox\\fR(1), \\fBccbox.toml\\fR(5)\n");
    }
    out.insert(format!("{name}.1"), tidy(&text));
    for child in shown_children {
        page(child, &format!("{name}-{}", child.get_name()), out);
    }
}

/// clap_mangen repeats its preamble for every section, and puts line breaks around empty lines, which mandoc calls useless.
fn tidy(text: &str) -> String {
    let preamble = |l: &str| l.starts_with(".ie \\n(.g") || l.starts_with(".el .ds Aq");
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        if i < 2 || !preamble(line) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out.replace("\n.br\n\n.br\n", "\n.sp\n")
}

/// Completion scripts: file name → text.
fn completions() -> BTreeMap<&'static str, String> {
    let script = |shell: &str| {
        let mut out = Vec::new();
        let mut tree = command();
        match shell {
            "bash" => generate(Bash, &mut tree, "ccbox", &mut out),
            "zsh" => generate(Zsh, &mut tree, "ccbox", &mut out),
            _ => generate(Fish, &mut tree, "ccbox", &mut out),
        }
        String::from_utf8(out).unwrap()
    };
    BTreeMap::from([
        ("ccbox.bash", script("bash")),
        ("_ccbox", script("zsh")),
        ("ccbox.fish", script("fish")),
    ])
}

/// Compares a file with what it should hold, or writes it.
fn held(path: &Path, want: &str) {
    if std::env::var_os("CCBOX_BLESS").is_some() {
        std::fs::write(path, want).unwrap();
        return;
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        have == want,
        "{} is not what the clap tree says: CCBOX_BLESS=1 cargo test --test it generated",
        path.display()
    );
}

#[test]
fn man_pages_are_current() {
    for (name, text) in pages() {
        held(&root().join("man").join(name), &text);
    }
}

#[test]
fn completions_are_current() {
    for (name, text) in completions() {
        held(&root().join("completions").join(name), &text);
    }
}

#[test]
fn the_binary_carries_every_page_and_no_other() {
    let mut made: Vec<String> = pages()
        .into_keys()
        .chain(["ccbox.toml.5".to_owned()])
        .collect();
    made.sort();
    let mut carried: Vec<&str> = PAGES.iter().map(|(n, _)| *n).collect();
    carried.sort_unstable();
    assert_eq!(carried, made);
    let mut on_disk: Vec<String> = std::fs::read_dir(root().join("man"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    on_disk.sort();
    assert_eq!(on_disk, made);
}

#[test]
fn man_pages_lint_clean() {
    let mandoc = program("mandoc");
    for (name, _) in PAGES {
        let out = Command::new(&mandoc)
            .args(["-T", "lint", "-W", "warning"])
            .arg(root().join("man").join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        // mandoc wants a date; a page that changes with the version of the program needs none.
        let wrong: Vec<&str> = said
            .lines()
            .filter(|l| !l.contains("missing date"))
            .collect();
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

/// Text of a page without roff escapes.
fn plain(name: &str) -> String {
    let path: PathBuf = root().join("man").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fI", "")
        .replace("\\fR", "")
}

#[test]
fn every_option_of_run_is_in_its_man_page() {
    let text = plain("ccbox-run.1");
    let tree = command();
    let run = tree.find_subcommand("run").unwrap();
    let mut seen = 0;
    for arg in run.get_arguments() {
        if let Some(long) = arg.get_long() {
            assert!(text.contains(&format!("--{long}")), "--{long}");
            assert!(arg.get_help().is_some(), "--{long} has no help");
            seen += 1;
        }
    }
    assert!(seen > 20);
}

/// Runs a shell's script with the checked-in completions; its stdout.
fn in_shell(shell: &str, script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(program(shell))
        .args(match shell {
            "bash" => &["--norc", "--noprofile", "-c"][..],
            "zsh" => &["-f", "-c"],
            _ => &["--no-config", "-c"],
        })
        .arg(script)
        .env("HOME", dir.path())
        .env("COMPLETIONS", root().join("completions"))
        .env(
            "CCBOX_DIR",
            Path::new(env!("CARGO_BIN_EXE_ccbox")).parent().unwrap(),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{shell}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn bash_completes() {
    let out = in_shell(
        "bash",
        r#"source "$COMPLETIONS/ccbox.bash"
           COMP_WORDS=(ccbox run --sand); COMP_CWORD=2; _ccbox ccbox --sand run; echo "${COMPREPLY[@]}"
           COMP_WORDS=(ccbox run --mode ''); COMP_CWORD=3; _ccbox ccbox '' --mode; echo "${COMPREPLY[@]}"
           COMP_WORDS=(ccbox pro); COMP_CWORD=1; _ccbox ccbox pro ccbox; echo "${COMPREPLY[@]}""#,
    );
    assert_eq!(
        out,
        "--sandbox\nchat review plan orchestrate\nprofile probe\n"
    );
}

#[test]
fn fish_completes() {
    let out = in_shell(
        "fish",
        r"set -x PATH $CCBOX_DIR $PATH; source $COMPLETIONS/ccbox.fish
           complete -C 'ccbox run --sand' | string split -f1 \t
           complete -C 'ccbox run --mode ' | string split -f1 \t
           complete -C 'ccbox expl' | string split -f1 \t",
    );
    for want in ["--sandbox", "orchestrate", "explain"] {
        assert!(out.lines().any(|l| l == want), "{want} in {out}");
    }
}

#[test]
fn zsh_loads() {
    let out = in_shell(
        "zsh",
        r#"fpath=("$COMPLETIONS" $fpath); autoload -Uz compinit; compinit -u -D
           print -r -- "${_comps[ccbox]}"; autoload +X _ccbox && whence -w _ccbox"#,
    );
    assert_eq!(out, "_ccbox\n_ccbox: function\n");
}

/// Types into an interactive shell on a terminal, with a function in the place of the program that tells what it was called with.
/// What is typed, and what the shell must make of it.
const TYPED: &[(&str, &str)] = &[
    ("ccbox expl\t\n", "GOT:explain"),
    ("ccbox run --dry\t-- x\n", "GOT:run --dry-run -- x"),
    ("ccbox run --mode orch\tx\n", "GOT:run --mode orchestrate x"),
];

#[test]
fn what_is_typed_is_completed() {
    for (shell, start, setup) in [
        (
            "bash",
            "bash --norc --noprofile -i",
            "ccbox() { echo \"GOT:$*\"; }; PS1=; source $COMPLETIONS/ccbox.bash; bind 'set bell-style none'",
        ),
        (
            "zsh",
            "zsh -f -i",
            "ccbox() { echo \"GOT:$*\"; }; PS1=; fpath=($COMPLETIONS $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep",
        ),
        (
            "fish",
            "fish --no-config -i",
            "function ccbox; echo \"GOT:$argv\"; end; source $COMPLETIONS/ccbox.fish",
        ),
    ] {
        // zsh's own terminals; what is read in vain ends with the run's patience.
        let mut script = format!(
            "zmodload zsh/zpty; export TERM=xterm COLUMNS=200; zpty box '{start}'; zpty -w box \"$SETUP\"; zpty -w box 'echo rea\"\"dy'; zpty -r box out '*ready*'\n"
        );
        for (typed, wanted) in TYPED {
            let typed = typed.replace('\t', "\\t").replace('\n', "\\r");
            let line = format!(
                "zpty -w -n box $'{typed}'; zpty -r box out '*{wanted}[[:cntrl:]]*'; print -r -- '{wanted}'\n"
            );
            script.push_str(&line);
        }
        let dir = tempfile::tempdir().unwrap();
        let out = Command::new("timeout")
            .arg("60")
            .arg(program("zsh"))
            .args(["-f", "-c", &script])
            .env("HOME", dir.path())
            .env("SETUP", setup)
            .env("COMPLETIONS", root().join("completions"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let wanted: Vec<&str> = TYPED.iter().map(|(_, w)| *w).collect();
        assert_eq!(
            said.lines().collect::<Vec<_>>(),
            wanted,
            "{shell}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
