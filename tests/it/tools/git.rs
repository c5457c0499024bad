//! git over HTTP and over ssh. Case PT-5.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{Caller, Desk, Lab, sh};

/// A bare repository with one commit on `main`, served by `git.test`; answers its path.
fn served_repository(lab: &Lab, name: &str) -> String {
    let path = lab.outer("git").join(name).display().to_string();
    let script = format!(
        "set -e; git init -q --bare -b main {path}; cd {path}; git config http.receivepack true
        blob=$(echo hello | git hash-object -w --stdin); tree=$(printf '100644 blob %s\\tREADME\\n' $blob | git mktree)
        git update-ref refs/heads/main $(git commit-tree -m first $tree)"
    );
    as_author(lab.command(Caller::User, &sh(&script)))
        .output()
        .success();
    path
}

fn as_author(command: super::LabCommand) -> super::LabCommand {
    let names = [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ];
    names
        .into_iter()
        .fold(command, |c, n| c.env(n, "lab@git.test"))
}

/// The branch's tip in the served repository.
fn tip(lab: &Lab, repository: &str, branch: &str) -> String {
    lab.command(
        Caller::User,
        &["git", "-C", repository, "log", "-1", "--format=%s", branch],
    )
    .output()
    .success()
    .stdout
}

const WORK: &str = "set -e; git clone -q $URL work; cd work; cat README; git checkout -q -b $BRANCH; echo more >> README; git commit -q -a -m $BRANCH; git push -q origin $BRANCH; git fetch -q";

fn work(
    desk: &Desk<'_>,
    allow: Option<&[&str]>,
    url: &str,
    branch: &str,
    before: &str,
) -> super::lab::Out {
    let script = format!("{before}{WORK}");
    let command = allow.map_or_else(
        || desk.control(&sh(&script)),
        |a| desk.boxed(a, &sh(&script)),
    );
    as_author(command)
        .env("URL", url)
        .env("BRANCH", branch)
        .output()
}

/// Clone, commit, push and fetch over HTTP; a refused host is named by git's own error and by ccbox.
#[test]
fn git_over_http() {
    let lab = Lab::start();
    let repository = served_repository(&lab, "r.git");
    let url = "http://git.test/r.git";
    for &caller in lab.callers() {
        let name = format!("{caller:?}");
        let out = work(&lab.desk(caller), None, url, &format!("out-{name}"), "").success();
        assert_eq!(out.stdout, "hello\n", "{out}");
        let branch = format!("in-{name}");
        let out = work(&lab.desk(caller), Some(&["git.test"]), url, &branch, "").success();
        assert_eq!(out.stdout, "hello\n", "{out}");
        assert_eq!(tip(&lab, &repository, &branch).trim(), branch);
        lab.forget_hits();
        let out = lab
            .desk(caller)
            .boxed(&["allowed.test"], &["git", "ls-remote", url])
            .output()
            .failure();
        assert!(out.stderr.contains("403"), "{out}");
        out.names_denied("git.test:80");
        assert_eq!(lab.hits(), Vec::<String>::new());
    }
}

/// `ccbox run -- git clone https://…` from the public host that the baseline has.
#[test]
fn git_clone_without_a_spec() {
    let lab = Lab::start();
    served_repository(&lab, "r.git");
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let argv = ["git", "clone", "-q", "https://github.com/r.git", "out"];
        desk.control(&argv).trust_lab().output().success();
        assert_eq!(desk.read("ws/out/README"), "hello\n");
        let argv = ["git", "clone", "-q", "https://github.com/r.git", "in"];
        desk.bare(&argv).trust_lab().output().success();
        assert_eq!(desk.read("ws/in/README"), "hello\n");
        let out = desk
            .bare(&["git", "ls-remote", "https://denied.test/r.git"])
            .trust_lab()
            .output()
            .failure();
        out.names_denied("denied.test:443");
    }
}

/// What ssh needs of the caller: a key beside the workspace and the host's key in `known_hosts`.
fn ssh_files(lab: &Lab, desk: &Desk<'_>, caller: Caller) -> String {
    let (_, home) = lab.home(caller);
    let hosts = fs::read_to_string(lab.outer("ssh/known_hosts")).unwrap();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/known_hosts"), hosts).unwrap();
    let script = "chown -R \"$(stat -c %u:%g .)\" .ssh && chmod 700 .ssh";
    assert!(
        std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(&home)
            .status()
            .unwrap()
            .success()
    );
    desk.write("id", fs::read(lab.outer("ssh/id")).unwrap());
    fs::set_permissions(desk.outer.join("id"), fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "export GIT_SSH_COMMAND=\"${{GIT_SSH_COMMAND:-ssh}} -o BatchMode=yes -o IdentitiesOnly=yes -i {}/id\"; ",
        desk.inner
    )
}

/// Clone, commit, push and fetch over ssh: a host key that the caller knows, no nc, no socat.
#[test]
fn git_over_ssh() {
    let lab = Lab::with_ssh();
    let repository = served_repository(&lab, "r.git");
    let url = format!("ssh://{}@git.test{repository}", lab.user().name);
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let before = ssh_files(&lab, &desk, caller);
        let out = work(&desk, None, &url, &format!("out-{caller:?}"), &before).success();
        assert_eq!(out.stdout, "hello\n", "{out}");

        let desk = lab.desk(caller);
        let before = ssh_files(&lab, &desk, caller);
        let branch = format!("in-{caller:?}");
        let out = work(&desk, Some(&["git.test:22"]), &url, &branch, &before).success();
        assert_eq!(out.stdout, "hello\n", "{out}");
        assert_eq!(tip(&lab, &repository, &branch).trim(), branch);
    }
}

/// PT-5: an allowed ssh host is reached through the connector that ccbox brings; a refused one never is, and ssh says why.
#[test]
fn ssh_to_a_refused_host_says_why() {
    let lab = Lab::with_ssh();
    let desk = lab.desk(Caller::User);
    let argv = ["git", "ls-remote", "ssh://git@denied.test/r.git"];
    desk.control(&argv)
        .env(
            "GIT_SSH_COMMAND",
            "ssh -o BatchMode=yes -o ConnectTimeout=5",
        )
        .output()
        .failure();
    assert_eq!(
        lab.hits_of("TRAP denied port=22").len(),
        1,
        "the control reaches the host"
    );
    lab.forget_hits();
    let out = desk.boxed(&["allowed.test:22"], &argv).output().failure();
    out.names_denied("denied.test:22");
    assert!(!out.stderr.contains("not found"), "{out}");
    let out = desk
        .boxed(
            &["allowed.test:22"],
            &["git", "ls-remote", "ssh://git@allowed.test/r.git"],
        )
        .output()
        .failure();
    assert!(!out.stderr.contains("ccbox: denied"), "{out}");
    assert_eq!(lab.hits(), ["TRAP allowed port=22"]);
}
