//! Everyday git, recorded call by call, is carried out by the broker: init, clone, commit, branch, merge, rebase, cherry-pick,
//! stash, tag, remote, fetch, push, bisect, notes, worktree (add, move, remove), submodule, gc, am, sha256, reftable, bare and
//! separate git directories, branches named `config`, `hooks/x` and `objects/y`, and removal of whole clones.

use super::super::model::{Broker, Fs, Op};
use super::*;

const TRACE: &str = include_str!("flows.trace");

fn text(field: &str) -> String {
    field
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\\", "\\")
}

#[test]
fn everyday_git_is_carried_out() {
    let set = RuleSet::new(vec![root("/w")], vec![], vec![], GitRules::Preset);
    let mut fs = Fs::new();
    fs.host("/w/", "");
    let mut broker = Broker {
        set: &set,
        root: "/w",
        fs,
    };
    let mut content: Vec<u8> = Vec::new();
    let mut lines = TRACE
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split('\t').collect::<Vec<_>>())
        .peekable();
    let mut asked = 0;
    while let Some(line) = lines.next() {
        let path = line[1].to_owned();
        // What is written after the file is opened.
        if let ("W", Some(["A", same, written])) = (line[0], lines.peek().map(Vec::as_slice))
            && *same == path
        {
            content = text(written).into_bytes();
        } else if line[0] == "W" {
            content = b"x".to_vec();
        }
        let op = match line[0] {
            "W" => Op::Write(path, content.clone()),
            "M" => Op::Mkdir(path),
            "S" => Op::Symlink(path, line[2].to_owned()),
            "V" => Op::Rename(path, line[2].to_owned()),
            "U" => Op::Unlink(path),
            "D" => Op::Rmdir(path),
            "C" => Op::Chmod(path, 0o644, 0o744),
            "A" => {
                // Content that comes later than the next line.
                broker.append(&path, text(line[2]).into_bytes());
                continue;
            }
            other => panic!("{other}"),
        };
        asked += 1;
        assert!(broker.run(&op), "{op:?}");
    }
    assert!(asked > 700, "{asked}");
}
