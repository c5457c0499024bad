//! The mounts of this process' namespace, from /proc/self/mountinfo (proc(5)).
//!
//! A bind brings along what is mounted below (bwrap(1): binds are recursive), and each of those mounts has its own file system with
//! its own idea of names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount that can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// Where.
    pub at: PathBuf,
    /// Type of its file system, e.g. `ext4`.
    pub kind: String,
    /// Mounted read-only, or its file system is.
    pub read_only: bool,
}

/// Reads the table. A later mount hides what it stands over.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<HostMount> {
    let mut out: Vec<HostMount> = Vec::new();
    for mount in text.split(|b| *b == b'\n').filter_map(line) {
        out.retain(|m| !m.at.starts_with(&mount.at));
        out.push(mount);
    }
    out
}

/// `36 35 98:0 /root /at rw,noatime shared:1 - ext4 /dev/sda1 rw`
fn line(text: &[u8]) -> Option<HostMount> {
    let fields: Vec<&[u8]> = text.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    let options = fields.get(5)?;
    let of_file_system = fields.get(dash + 3)?;
    let read_only = |options: &[u8]| options.split(|b| *b == b',').any(|o| o == b"ro");
    Some(HostMount {
        at: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        read_only: read_only(options) || read_only(of_file_system),
    })
}

/// Blank, tab, newline and backslash stand there as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = code {
            out.push(byte);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(at: &str, kind: &str, read_only: bool) -> HostMount {
        HostMount {
            at: PathBuf::from(at),
            kind: kind.to_owned(),
            read_only,
        }
    }

    #[test]
    fn lines_of_the_table() {
        let text = b"22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            28 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
            40 28 0:44 / /mnt/c\\040d\\134x rw,noatime - 9p C:\\134 rw,aname=drvfs\n\
            41 28 7:1 / /snap ro - squashfs /dev/loop1 ro,errors=continue\n\
            42 28 8:1 / /usb rw - vfat /dev/sda1 ro\n\
            garbage\n";
        assert_eq!(
            parse(text),
            [
                mount("/", "ext4", false),
                mount("/mnt/c d\\x", "9p", false),
                mount("/snap", "squashfs", true),
                mount("/usb", "vfat", true),
            ],
            "what stood before `/` is hidden by it"
        );
    }

    #[test]
    fn a_later_mount_hides_what_it_stands_over() {
        let text = b"1 0 0:1 / / rw - ext4 a rw\n\
            2 1 0:2 / /a/b rw - tmpfs a rw\n\
            3 1 0:3 / /ab rw - tmpfs a rw\n\
            4 1 0:4 / /a rw - xfs a rw\n";
        assert_eq!(
            parse(text),
            [
                mount("/", "ext4", false),
                mount("/ab", "tmpfs", false),
                mount("/a", "xfs", false)
            ]
        );
    }

    #[test]
    fn this_machine_has_a_root() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        assert!(
            parse(&text)
                .iter()
                .any(|m| m.at == std::path::Path::new("/"))
        );
    }
}
