use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use super::*;

fn uid() -> u32 {
    nix::unistd::getuid().as_raw()
}

fn record(session_id: &str, cwd: &str) -> Record {
    Record {
        version: VERSION,
        session_id: session_id.to_owned(),
        time: "t".to_owned(),
        cwd: cwd.to_owned(),
        denials: vec![Denied {
            action: "file-read-data".to_owned(),
            target: "/x".to_owned(),
            process: None,
            pid: Some(1),
            rule: "r".to_owned(),
            hint: None,
            class: Class::Plain,
            count: 2,
        }],
        more: 0,
    }
}

fn put(state: &Path, record: &Record, at: u64) {
    let now = UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + at);
    write(state, uid(), record, now).unwrap();
}

fn here(state: &Path, cwd: &str) -> Option<String> {
    let found = read(state, uid(), Which::Here(Path::new(cwd))).unwrap();
    found.map(|r| r.session_id)
}

#[test]
fn the_newest_of_a_directory_or_of_a_name_is_found() {
    let keep = tempfile::tempdir().unwrap();
    let state = keep.path().join("state/ccbox");
    assert_eq!(here(&state, "/a"), None);
    put(&state, &record("one", "/a"), 1);
    put(&state, &record("two", "/a"), 2);
    put(&state, &record("three", "/b"), 3);
    assert_eq!(here(&state, "/a").as_deref(), Some("two"));
    assert_eq!(here(&state, "/"), None);
    let named = read(&state, uid(), Which::Session("one")).unwrap();
    assert_eq!(named, Some(record("one", "/a")));
}

#[test]
fn twenty_are_kept() {
    let keep = tempfile::tempdir().unwrap();
    for n in 0..25 {
        put(keep.path(), &record(&format!("s{n}"), "/a"), n);
    }
    let dir = open(keep.path(), uid()).unwrap();
    assert_eq!(names(&dir).unwrap().len(), KEPT);
    let gone = read(keep.path(), uid(), Which::Session("s4")).unwrap();
    assert_eq!(gone, None);
    let oldest = read(keep.path(), uid(), Which::Session("s5")).unwrap();
    assert!(oldest.is_some());
}

#[test]
fn records_are_private_and_never_links_or_anybody_elses() {
    let keep = tempfile::tempdir().unwrap();
    let (state, dir) = (keep.path(), keep.path().join(DENIALS));
    put(state, &record("mine", "/a"), 1);
    let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap();
    let mode = |p: &Path| std::fs::metadata(p).unwrap().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&file.path())), (0o700, 0o600));
    // A newer one that others can read was not written here; nor is one behind a link, nor nonsense.
    let planted = dir.join("99999999999999-1.json");
    std::fs::write(
        &planted,
        serde_json::to_vec(&record("planted", "/a")).unwrap(),
    )
    .unwrap();
    std::fs::set_permissions(&planted, PermissionsExt::from_mode(0o644)).unwrap();
    symlink(&planted, dir.join("99999999999999-2.json")).unwrap();
    std::fs::write(dir.join("99999999999999-3.json"), "nonsense").unwrap();
    nix::unistd::mkfifo(&dir.join("99999999999999-4.json"), Mode::S_IRUSR).unwrap();
    assert_eq!(here(state, "/a").as_deref(), Some("mine"));
    // A directory others can write to is not believed, and not written to.
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(read(state, uid(), Which::Session("mine")).is_err());
    let now = SystemTime::now();
    assert!(write(state, uid(), &record("x", "/a"), now).is_err());
    // Nor is a link in its place.
    std::fs::rename(&dir, keep.path().join("elsewhere")).unwrap();
    symlink(keep.path().join("elsewhere"), &dir).unwrap();
    assert!(read(state, uid(), Which::Session("mine")).is_err());
    assert!(write(state, uid(), &record("x", "/a"), now).is_err());
}
