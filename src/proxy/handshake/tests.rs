use super::super::client_hello::tests::hello;
use super::*;

/// The records of a hello, however it is cut, and nothing behind them.
#[test]
fn records_of_a_hello() {
    let whole = hello(Some("allowed.test"));
    assert_eq!(records(&whole), Some(whole.len()));
    let more = [&whole[..], &[20, 3, 3, 0, 1, 1]].concat();
    assert_eq!(records(&more), Some(whole.len()));
    for size in [1, 7, 60] {
        let cut: Vec<u8> = whole[5..]
            .chunks(size)
            .flat_map(|part| [&[22, 3, 1, 0, u8::try_from(part.len()).unwrap()][..], part].concat())
            .collect();
        assert_eq!(records(&cut), Some(cut.len()), "{size}");
        assert_eq!(
            records(&[&cut[..], b"x"].concat()),
            Some(cut.len()),
            "{size}"
        );
    }
    for end in 0..whole.len() {
        assert_eq!(records(&whole[..end]), None, "{end}");
    }
    // A byte more in the record.
    let mut longer = whole.clone();
    let length = u16::from_be_bytes([longer[3], longer[4]]) + 1;
    longer[3..5].copy_from_slice(&length.to_be_bytes());
    longer.push(1);
    assert_eq!(records(&longer), None);
}

#[test]
fn answers() {
    for (answer, may_be) in [
        (&b""[..], true),
        (&[22, 3, 3, 0, 90, 2], true),
        (&[22, 3], true),
        (&[21, 3, 3, 0, 2, 2, 40], false),
        (&[22, 3, 3, 0, 90, 1], false),
        (b"HTTP/1.1", false),
    ] {
        assert_eq!(is_server_hello(answer), may_be, "{answer:?}");
    }
}
