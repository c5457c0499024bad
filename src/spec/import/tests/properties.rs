//! Any settings: no panic, nothing opened that no key opens, nothing closed that is lost.

use proptest::prelude::*;

use super::*;
use crate::policy::NetworkMode;

fn texts(of: &'static str) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(of, 0..4)
}

/// Settings of either tool, from the same lists.
#[derive(Debug, Clone)]
struct Any {
    claude: bool,
    allow_write: Vec<String>,
    deny_write: Vec<String>,
    deny_read: Vec<String>,
    allowed: Vec<String>,
    denied: Vec<String>,
    junk: serde_json::Value,
}

impl Any {
    fn text(&self) -> String {
        let mut sandbox = serde_json::json!({
            "network": {"allowedDomains": self.allowed, "deniedDomains": self.denied},
            "filesystem": {"allowWrite": self.allow_write, "denyWrite": self.deny_write, "denyRead": self.deny_read},
        });
        if self.claude {
            sandbox["enabledPlatforms"] = self.junk.clone();
            serde_json::json!({"sandbox": sandbox, "theme": self.junk}).to_string()
        } else {
            sandbox["windows"] = self.junk.clone();
            sandbox.to_string()
        }
    }
}

fn any_settings() -> impl Strategy<Value = Any> {
    const PATH: &str = "(/|~/|\\./|//|\\.\\./)?[a-c\\[\\]*?$ ~.]{0,3}(/[a-c*]{1,2}){0,2}(/\\*\\*)?";
    const HOST: &str = "(\\*\\.)?[a-c]{1,2}\\.example(:[0-9]{1,3})?";
    let lists = (
        texts(PATH),
        texts(PATH),
        texts(PATH),
        texts(HOST),
        texts(HOST),
    );
    (any::<bool>(), lists, any::<Option<String>>()).prop_map(|(claude, l, junk)| Any {
        claude,
        allow_write: l.0,
        deny_write: l.1,
        deny_read: l.2,
        allowed: l.3,
        denied: l.4,
        junk: junk.map_or(serde_json::Value::Null, Into::into),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_is_opened_that_no_key_opens(any in any_settings()) {
        let lab = Lab::new();
        places(&lab);
        let lab = lab.json("s.json", &any.text());
        let Ok(loaded) = lab.load() else { return Ok(()) };
        let p = loaded.policy;
        prop_assert!(p.fs.allow_write.len() <= any.allow_write.len());
        prop_assert!(p.net.allowed.len() <= any.allowed.len());
        for rule in &p.net.allowed {
            prop_assert!(any.allowed.contains(&rule.value.text) && !rule.value.allow_private);
        }
        prop_assert!(p.fs.binds.is_empty() && p.fs.allow_read.is_empty() && p.fs.runner_state_dirs.is_empty());
        prop_assert!(p.env.set.is_empty() && p.env.pass.is_empty() && p.net.unix_sockets.is_empty());
        prop_assert_eq!((p.sandbox, p.net.mode), (SandboxMode::Require, NetworkMode::Filtered));
        prop_assert!(!p.fs.disabled && !p.net.baseline && p.net.all_unix_sockets.is_none());
        prop_assert_eq!(p.fs.cwd_writable, any.claude);
    }

    #[test]
    fn no_deny_is_lost(any in any_settings()) {
        let lab = Lab::new();
        places(&lab);
        let lab = lab.json("s.json", &any.text());
        let Ok(loaded) = lab.load() else { return Ok(()) };
        let own = |list: &[crate::policy::Ruled<crate::policy::path::PathEntry>]| list.iter().filter(|r| r.origin.file.is_some()).count();
        prop_assert!(own(&loaded.policy.fs.deny_write) >= any.deny_write.len());
        prop_assert!(own(&loaded.policy.fs.deny_read) >= any.deny_read.len());
        prop_assert!(loaded.policy.net.denied.len() >= any.denied.len());
    }

    /// A repository's settings turn nothing off, whatever stands in them.
    #[test]
    fn a_repository_never_weakens(any in any_settings(), off: bool, fail: bool) {
        let mut value: serde_json::Value = serde_json::from_str(&any.text()).unwrap();
        if !any.claude { return Ok(()) }
        value["sandbox"]["filesystem"]["disabled"] = off.into();
        value["sandbox"]["failIfUnavailable"] = fail.into();
        let lab = Lab::new().json(".claude/settings.json", &value.to_string());
        let Ok(loaded) = lab.load() else { return Ok(()) };
        prop_assert!(!loaded.policy.fs.disabled);
        prop_assert_eq!(loaded.policy.sandbox, SandboxMode::Require);
    }

    #[test]
    fn cut_and_changed_settings_load_or_are_refused_on_one_line(any in any_settings(), at: prop::sample::Index, with in any::<Option<char>>()) {
        let text = any.text();
        let chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        let changed: String = match with {
            Some(c) => chars.iter().enumerate().map(|(i, k)| if i == at { c } else { *k }).collect(),
            None => chars.iter().take(at).collect(),
        };
        let changed = format!("{{{}", changed.strip_prefix('{').unwrap_or(&changed));
        if let Err(e) = Lab::new().json("s.json", &changed).load() {
            prop_assert!(!e.message.contains('\n'), "{}", e.message);
        }
    }
}
