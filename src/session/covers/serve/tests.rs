use super::super::nodes::Covered;
use super::*;

fn nodes() -> Nodes {
    let covered = |path: &str, is_dir| Covered {
        host: path.into(),
        guest: path.into(),
        is_dir,
    };
    Nodes::new(vec![covered("/etc/passwd", false), covered("/etc", true)])
}

/// A request as the kernel writes it.
fn request(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&u32::try_from(40 + body.len()).unwrap().to_ne_bytes());
    out.extend_from_slice(&opcode.to_ne_bytes());
    out.extend_from_slice(&1u64.to_ne_bytes());
    out.extend_from_slice(&node.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&9u32.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    out
}

/// errno and what is told, of an answer; `None` without one.
fn ask(opcode: u32, node: u64, body: &[u8]) -> Option<(i32, Option<Tried>)> {
    let bytes = request(opcode, node, body);
    let (answer, tried) = respond(&nodes(), &Request::parse(&bytes).unwrap())?;
    Some((answer.errno(), tried))
}

#[test]
fn a_cover_shows_metadata_and_refuses_the_rest() {
    let denied = |tried| Some((libc::EACCES, Some(tried)));
    let (file, directory) = (2, 3);
    for node in [file, directory] {
        assert_eq!(ask(3, node, &[0; 16]), Some((0, None)), "getattr");
        assert_eq!(ask(17, node, &[]), Some((0, None)), "statfs");
        assert_eq!(
            ask(22, node, &[0; 8]),
            Some((libc::ENOSYS, None)),
            "getxattr"
        );
        assert_eq!(ask(34, node, &[0; 8]), Some((0, None)), "is it there");
        for mask in [1u8, 2, 4, 7] {
            assert_eq!(
                ask(34, node, &[mask, 0, 0, 0, 0, 0, 0, 0]),
                denied(Tried::Access)
            );
        }
        assert_eq!(ask(14, node, &[0; 8]), denied(Tried::Read));
        assert_eq!(ask(27, node, &[0; 8]), denied(Tried::List));
        assert_eq!(ask(1, node, b"x\0"), denied(Tried::Lookup));
        assert_eq!(ask(2, node, &[0; 8]), None, "forget");
        assert_eq!(ask(36, node, &[0; 8]), None, "interrupt");
        // Every other number there is and will be: setattr, read, write, ioctl, poll, lseek, …
        for opcode in
            (4..=100).filter(|n| ![14, 17, 22, 23, 26, 27, 34, 36, 38, 42, 52].contains(n))
        {
            assert_eq!(
                ask(opcode, node, &[0; 64]),
                denied(Tried::Other),
                "{opcode}"
            );
        }
    }
}

#[test]
fn there_are_no_other_nodes() {
    for node in [0, 4, u64::MAX] {
        for opcode in [3, 14, 27, 34] {
            assert_eq!(ask(opcode, node, &[0; 64]), Some((libc::ESTALE, None)));
        }
    }
    for (name, errno) in [
        (b"0\0".as_slice(), 0),
        (b"1\0", 0),
        (b"2\0", libc::ENOENT),
        (b"00\0", libc::ENOENT),
        (b"+1\0", libc::ENOENT),
        (b"x\0", libc::ENOENT),
        (b"\xff\0", libc::ENOENT),
    ] {
        assert_eq!(ask(1, ROOT, name), Some((errno, None)), "{name:?}");
    }
}
