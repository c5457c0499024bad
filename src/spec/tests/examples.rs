//! The shipped examples and the template load as they are.

use super::*;

const EXAMPLES: &[(&str, &str)] = &[
    (
        "developer.toml",
        include_str!("../../../examples/developer.toml"),
    ),
    ("build.toml", include_str!("../../../examples/build.toml")),
    ("agent.toml", include_str!("../../../examples/agent.toml")),
];

#[test]
fn every_example_loads_without_a_notice() {
    for (name, text) in EXAMPLES {
        let lab = Lab::new().spec(text).with(|r| {
            if text.contains("${param:") {
                r.params = vec![
                    ("WORKSPACE".into(), "/w".into()),
                    ("SESSION".into(), "s-1".into()),
                ];
            }
        });
        let loaded = lab.load().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(loaded.policy.notices, [""; 0], "{name}");
        assert_eq!(loaded.policy.loud_notices, [""; 0], "{name}");
    }
}

#[test]
fn every_example_is_in_the_list() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let name = path.file_name().unwrap();
            assert!(EXAMPLES.iter().any(|(n, _)| *n == name), "{name:?}");
        }
    }
}

#[test]
fn the_template_loads_for_every_profile_also_uncommented() {
    for (name, _) in profile::NAMES {
        let text = init_template(name);
        assert!(!text.contains('@'), "{text}");
        let p = Lab::new().spec(&text).policy();
        assert_eq!(p.profile, *name);
    }
    // Every commented setting is one that works.
    let text = init_template("dev")
        .lines()
        .map(|l| {
            l.strip_prefix("# ")
                .filter(|l| l.contains(" = ") || l.starts_with("[["))
                .unwrap_or(l)
                .to_owned()
        })
        .collect::<Vec<String>>()
        .join("\n");
    let p = Lab::new().spec(&text).policy();
    assert_eq!(p.fs.allow_write.len(), 1);
    assert_eq!(p.net.allowed.len(), 2);
    assert_eq!(p.fs.binds.len(), 1);
}
