//! Node.js and npm. Case PT-3.

use super::{Caller, Desk, Lab, LabCommand, sh};

/// PT-3: `fetch` works, whether Node reads the proxy variables or not.
#[test]
fn fetch_works() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "const t = Date.now(); const done = w => console.log(w, Date.now() - t < 3000 ? 'fast' : 'SLOW');
        fetch('http://allowed.test/').then(r => done(r.status)).catch(() => done('error'))";
    assert_eq!(
        desk.control(&["node", "-e", script])
            .output()
            .success()
            .stdout,
        "200 fast\n"
    );
    let out = desk
        .boxed(&["allowed.test"], &["node", "-e", script])
        .output()
        .success();
    assert_eq!(out.stdout, "200 fast\n", "{out}");
    assert_eq!(
        desk.boxed(&["allowed.test"], &sh("echo $NODE_USE_ENV_PROXY"))
            .output()
            .success()
            .stdout,
        "1\n"
    );
}

/// An application with one dependency; with `lock` as `npm ci` wants it.
fn project(desk: &Desk<'_>, registry: &str, lock: bool) {
    desk.write(
        "ws/package.json",
        r#"{ "name": "app", "version": "1.0.0", "dependencies": { "ccbox-lab": "1.0.0" } }"#,
    );
    let entry = format!(
        r#""node_modules/ccbox-lab": {{ "version": "1.0.0", "resolved": "{registry}/ccbox-lab/-/ccbox-lab-1.0.0.tgz" }}"#
    );
    let root =
        r#""": { "name": "app", "version": "1.0.0", "dependencies": { "ccbox-lab": "1.0.0" } }"#;
    if lock {
        desk.write("ws/package-lock.json", format!(r#"{{ "name": "app", "version": "1.0.0", "lockfileVersion": 3, "packages": {{ {root}, {entry} }} }}"#));
    }
}

fn npm(command: LabCommand, registry: &str) -> LabCommand {
    let quiet = [
        "npm_config_audit",
        "npm_config_fund",
        "npm_config_update_notifier",
    ];
    quiet
        .into_iter()
        .fold(command, |c, n| c.env(n, "false"))
        .env("npm_config_registry", registry)
        .env("npm_config_fetch_retries", "0")
        .env("npm_config_globalconfig", "/dev/null")
}

const INSTALL: &str = "npm install --no-progress >&2 && node -p 'require(\"ccbox-lab\")()'";
const CI: &str = "npm ci --no-progress >&2 && node -p 'require(\"ccbox-lab\")()'";

/// `npm install` from a registry that the spec allows, and the reason where it does not.
#[test]
fn npm_install() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for allow in [None, Some("npm.test"), Some("allowed.test")] {
            let desk = lab.desk(caller);
            project(&desk, "http://npm.test", false);
            let command = allow.map_or_else(
                || desk.control(&sh(INSTALL)),
                |a| desk.boxed(&[a], &sh(INSTALL)),
            );
            let out = npm(command, "http://npm.test/").output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                out.names_denied("npm.test:80");
                assert!(out.stderr.contains("403"), "the tool says it too: {out}");
            } else {
                let out = out.success();
                assert_eq!(out.stdout, "from the tarball\n", "{out}");
                assert!(
                    !out.stderr.contains("npm warn"),
                    "npm knows every setting it is given: {out}"
                );
            }
        }
    }
}

/// `npm ci` with no spec and a fresh private cache, from the public registry that the baseline has.
#[test]
fn npm_ci_without_a_spec() {
    let lab = Lab::start();
    let registry = "https://registry.npmjs.org";
    for &caller in lab.callers() {
        for bare in [false, true, true] {
            let desk = lab.desk(caller);
            project(&desk, registry, true);
            let command = if bare {
                desk.bare(&sh(CI))
            } else {
                desk.control(&sh(CI))
            };
            let out = npm(command, registry).trust_lab().output().success();
            assert_eq!(out.stdout, "from the tarball\n", "{out}");
        }
    }
}
