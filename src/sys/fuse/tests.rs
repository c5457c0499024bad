use super::*;
use proptest::prelude::*;

/// A request as the kernel writes it.
fn request(opcode: u32, node: u64, pid: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = u32::try_from(40 + body.len()).unwrap();
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&opcode.to_ne_bytes());
    out.extend_from_slice(&77u64.to_ne_bytes());
    out.extend_from_slice(&node.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&pid.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    out
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

#[test]
fn calls_are_told_apart() {
    let access = words(&[4, 0]);
    let init = words(&[7, 45, 0, DO_READDIRPLUS]);
    let list = words(&[0, 0, 3, 0, 4096, 0]);
    let table: [(u32, &[u8], Call<'_>); 14] = [
        (1, b"id\xff\0", Call::Lookup(OsStr::from_bytes(b"id\xff"))),
        (3, &[0; 16], Call::Attributes),
        (14, &[0; 8], Call::Open),
        (27, &[0; 8], Call::OpenDirectory),
        (34, &access, Call::Access(4)),
        (17, &[], Call::FileSystem),
        (22, &[0; 8], Call::Extended),
        (23, &[0; 8], Call::Extended),
        (
            26,
            &init,
            Call::Init {
                minor: 45,
                listings: true,
            },
        ),
        (
            44,
            &list,
            Call::List {
                offset: 3,
                room: 4096,
            },
        ),
        (52, &[0; 24], Call::MoreAttributes),
        (2, &[0; 8], Call::Note),
        (38, &[], Call::Note),
        (4, &[0; 88], Call::Other(4)),
    ];
    for (opcode, body, call) in table {
        let bytes = request(opcode, 5, 9, body);
        let parsed = Request::parse(&bytes).unwrap();
        assert_eq!((parsed.node, parsed.pid, parsed.call), (5, 9, call));
    }
}

#[test]
fn answers_have_the_kernels_layout() {
    let bytes = request(3, 5, 9, &[0; 16]);
    let asked = Request::parse(&bytes).unwrap();
    let about = Attributes::of(&std::fs::metadata("/").unwrap(), true);
    let size = |a: &Answer| {
        let told = u32::from_ne_bytes(a.0[..4].try_into().unwrap());
        assert_eq!(usize::try_from(told).unwrap(), a.0.len());
        assert_eq!(a.0[8..16], 77u64.to_ne_bytes());
        a.0.len() - 16
    };
    // sizeof(struct fuse_attr_out), fuse_entry_out, fuse_statfs_out.
    assert_eq!(size(&asked.attributes(&about, 1)), 104);
    assert_eq!(size(&asked.entry(5, &about, 1)), 128);
    assert_eq!(size(&asked.empty_file_system()), 80);
    assert_eq!(size(&asked.refuse(Errno::EACCES)), 0);
    assert_eq!(asked.refuse(Errno::EACCES).errno(), libc::EACCES);
    assert_eq!(size(&asked.agree()), 0);
    let bytes = request(27, 1, 9, &[0; 8]);
    assert_eq!(size(&Request::parse(&bytes).unwrap().agree()), 16);
    let bytes = request(26, 0, 0, &words(&[7, 45, 0, 0]));
    assert_eq!(size(&Request::parse(&bytes).unwrap().begin().unwrap()), 64);
}

#[test]
fn versions_nobody_has_are_refused() {
    for (major, minor) in [(7, 22), (6, 40), (8, 40)] {
        let bytes = request(26, 0, 0, &words(&[major, minor, 0, 0]));
        assert_eq!(Request::parse(&bytes).unwrap().begin(), None);
    }
}

#[test]
fn a_listing_stops_where_the_room_ends() {
    let entry = 128 + 24 + 8;
    for (room, fit) in [(entry - 1, 0), (entry, 1), (3 * entry + 5, 3), (4096, 4)] {
        let body = words(&[0, 0, 0, 0, u32::try_from(room).unwrap(), 0]);
        let bytes = request(44, 1, 9, &body);
        let asked = Request::parse(&bytes).unwrap();
        let entries = (0..4).map(|n| (n + 1, "name", n + 2, Attributes::bare(n + 2, false)));
        assert_eq!(asked.listing(entries, 1).0.len(), 16 + fit * entry);
    }
}

#[test]
fn types_the_kernel_would_open_itself_are_plain_files() {
    let null = Attributes::of(&std::fs::metadata("/dev/null").unwrap(), false);
    assert_eq!(null.mode & libc::S_IFMT, libc::S_IFREG);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), opcode in 0u32..60) {
        if bytes.len() >= 8 {
            let length = u32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        }
        if let Some(asked) = Request::parse(&bytes) {
            prop_assert!(bytes.len() >= 40);
            if let Call::Lookup(name) = asked.call {
                prop_assert!(!name.as_bytes().contains(&0));
            }
        }
    }
}
