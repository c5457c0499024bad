//! The pages of `docs/` that promise something: what they show is read from them and run.

mod links;
mod migration;
mod users;

use std::path::Path;

use crate::net::lab::{Caller, Lab, Out};

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    /// Its language: `sh`, `console`, `toml`, …
    language: String,
    /// The file it is the content of, as the page's source says after the language.
    file: Option<String>,
    /// Its lines, each with its line break.
    text: String,
}

/// What stands below a heading, up to the next one.
#[derive(Debug)]
struct Section {
    /// `## tool` and `### job` as `tool: job`.
    title: String,
    /// The text without its blocks.
    prose: String,
    blocks: Vec<Block>,
}

/// The sections of a page of `docs/`.
fn page(name: &str) -> Vec<Section> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let (mut out, mut above) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for line in text.lines() {
        if let Some(block) = &mut open {
            if line == "```" {
                let section: &mut Section = out.last_mut().unwrap();
                section.blocks.extend(open.take());
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if let Some(info) = line.strip_prefix("```") {
            let mut words = info.split(' ').map(str::to_owned);
            open = Some(Block {
                language: words.next().unwrap(),
                file: words.next(),
                text: String::new(),
            });
        } else if let Some((marks, title)) = line.split_once("# ") {
            let title = if marks == "##" {
                format!("{above}: {title}")
            } else {
                title.clone_into(&mut above);
                title.to_owned()
            };
            out.push(Section {
                title,
                prose: String::new(),
                blocks: Vec::new(),
            });
        } else {
            let prose = &mut out.last_mut().unwrap().prose;
            prose.push_str(line);
            prose.push('\n');
        }
    }
    assert!(open.is_none(), "{name}: a block has no end");
    out
}

/// A home with a project in it, as the pages assume one; made anew for every attempt.
const HOME: &str = r"
cd; chmod -R u+rwX . && rm -rf ./* ./.[!.]*
mkdir -p src/app/build private .ssh bin
echo key >.ssh/id; echo diary >private/diary; echo notes >notes
cd src/app && git init -q -b main . && git config user.name Ada && git config user.email ada@example.com
";

/// Runs a script in the project of the page.
fn in_project(lab: &Lab, caller: Caller, script: &str) -> Out {
    let script = format!("cd ~/src/app || exit\n{script}");
    lab.command(caller, &["bash", "-c", &script])
        .trust_lab()
        .output()
}

/// A fresh home with the files of the page in the project.
fn prepare(lab: &Lab, caller: Caller, files: &[(&str, &str)]) {
    lab.command(caller, &["bash", "-ec", HOME])
        .output()
        .success();
    for (name, text) in files {
        write(lab, caller, name, text);
    }
}

/// A file of the page: in the project, or where `~/` leads. A script can be executed.
fn write(lab: &Lab, caller: Caller, name: &str, text: &str) {
    let script = "case $NAME in '~'/*) to=$HOME/${NAME#'~'/} ;; *) to=$HOME/src/app/$NAME ;; esac
        mkdir -p \"${to%/*}\" && printf %s \"$TEXT\" >\"$to\"
        case $TEXT in '#!'*) chmod +x \"$to\" ;; esac";
    lab.command(caller, &["bash", "-c", script])
        .env("NAME", name)
        .env("TEXT", text)
        .output()
        .success();
}
