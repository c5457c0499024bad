use super::*;

#[test]
fn what_the_wrapper_says_is_told_apart() {
    let nested = "sandbox-exec: sandbox_apply: Operation not permitted\n";
    let table = [
        (
            Some(71),
            nested,
            "already inside a sandbox, and macOS applies no second one (sandbox-exec says: `sandbox_apply: Operation not permitted`)",
        ),
        (
            Some(65),
            "\nsandbox-exec: <input string>:3:2: unbound variable: file-frob\n",
            "macOS rejects the profile (sandbox-exec says: `<input string>:3:2: unbound variable: file-frob`)",
        ),
        (
            Some(64),
            "usage: sandbox-exec\n",
            "macOS rejects the profile (sandbox-exec says: `usage: sandbox-exec`)",
        ),
        (
            Some(1),
            "",
            "sandbox-exec made no sandbox: it ended with 1 and said `nothing`",
        ),
        (
            None,
            "x",
            "sandbox-exec made no sandbox: it was killed and said `x`",
        ),
    ];
    for (code, said, words) in table {
        let error = SessionError::from(Refused::by(code, said));
        assert_eq!(error.message, words);
        assert_eq!(error.retry, None);
    }
}

#[test]
fn secrets_are_new_and_in_a_fixed_alphabet() {
    let (a, b) = (Secrets::draw().unwrap(), Secrets::draw().unwrap());
    for s in [&a, &b] {
        let hex = s.tag.strip_prefix("ccbox-").unwrap();
        assert!(hex.len() == 16 && s.token.len() == 32);
        assert!((hex.chars().chain(s.token.chars())).all(|c| c.is_ascii_hexdigit()));
        assert!(!format!("{s:?}").contains(hex));
    }
    assert!(a.tag != b.tag && a.token != b.token);
}

#[test]
fn both_halves_of_the_port_are_ours() {
    let both = both_loopbacks().unwrap();
    let addresses: Vec<_> = both.iter().map(|l| l.local_addr().unwrap()).collect();
    assert_eq!(addresses[0].ip(), Ipv4Addr::LOCALHOST);
    assert_eq!(addresses[1].ip(), Ipv6Addr::LOCALHOST);
    assert_eq!(addresses[0].port(), addresses[1].port());
}

#[test]
fn a_long_profile_is_a_file_that_goes() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    assert!(matches!(
        Profile::ready("(version 1)".into(), &state).unwrap(),
        Profile::Text(_)
    ));
    assert!(!state.exists());
    let long = "x".repeat(ON_COMMAND_LINE + 1);
    let profile = Profile::ready(long.clone(), &state).unwrap();
    let Profile::File(path) = &profile else {
        panic!("not a file")
    };
    let path = path.clone();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), long);
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    drop(profile);
    assert!(!path.exists());
}
