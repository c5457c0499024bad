use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;

/// What wide pipes take is counted for the whole process, and so are tests of that, one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// No more than a share of what all programs of the user have together, and all of it is given back.
#[test]
fn wide_pipes_are_counted() {
    let _alone = ALONE.lock().unwrap();
    for _ in 0..3 {
        let mut pipes: Vec<Pipe> = (0..80).map(|_| Pipe::new().unwrap()).collect();
        let usual = pipes[0].0.size().unwrap();
        for pipe in &mut pipes {
            pipe.widen();
            pipe.widen();
        }
        let sizes: Vec<usize> = pipes.iter().map(|p| p.0.size().unwrap()).collect();
        let wide: Vec<usize> = sizes.iter().copied().filter(|s| *s > usual).collect();
        // Another test of this process may have some.
        assert!(wide.len() >= 2, "{sizes:?}");
        assert!(wide.iter().sum::<usize>() <= 16 << 20, "{sizes:?}");
        assert!(wide.contains(&(256 * 1024)), "{sizes:?}");
    }
}

/// What the kernel does not grant is asked for smaller, and only what was granted is counted.
#[test]
fn a_refused_width_gives_way_to_a_smaller_one() {
    let _alone = ALONE.lock().unwrap();
    let mut pipes: Vec<Pipe> = (0..40).map(|_| Pipe::new().unwrap()).collect();
    // Over INT_MAX, which is nothing for root either.
    let never = imp::Width {
        size: 1 << 40,
        below: usize::MAX,
    };
    for pipe in &mut pipes {
        pipe.0.widen_to(&[never, imp::WIDTHS[1]]);
    }
    let wide = pipes.iter().filter(|p| p.0.size().unwrap() == 256 * 1024);
    assert!(wide.count() >= 1);
    drop(pipes);
    let mut pipe = Pipe::new().unwrap();
    pipe.0.widen_to(&[never]);
    let usual = pipe.0.size().unwrap();
    pipe.widen();
    assert!(pipe.0.size().unwrap() > usual);
}

/// An error is told after the bytes before it, once, and neither it nor the end is lost or made of the other.
#[test]
fn what_comes_behind_bytes_is_told_after_them() {
    use io::ErrorKind::{ConnectionReset, WouldBlock};
    const MUCH: usize = 1 << 20;
    type Step = Result<usize, io::ErrorKind>;
    let cases: [(&[Step], &[Step]); 7] = [
        (&[Ok(5), Ok(0)], &[Ok(5), Ok(0)]),
        (&[Ok(MUCH), Ok(7), Ok(0)], &[Ok(MUCH + 7), Ok(0)]),
        (&[Ok(MUCH), Ok(0), Ok(0)], &[Ok(MUCH), Ok(0)]),
        (&[Ok(MUCH), Ok(MUCH), Ok(7)], &[Ok(2 * MUCH), Ok(7)]),
        (
            &[Ok(MUCH), Err(ConnectionReset), Ok(0)],
            &[Ok(MUCH), Err(ConnectionReset), Ok(0)],
        ),
        (
            &[Ok(MUCH), Err(WouldBlock), Err(WouldBlock)],
            &[Ok(MUCH), Err(WouldBlock)],
        ),
        (
            &[Err(ConnectionReset), Ok(0)],
            &[Err(ConnectionReset), Ok(0)],
        ),
    ];
    for (steps, want) in cases {
        let (mut steps, mut failed) = (steps.iter(), None);
        let got: Vec<Step> = want
            .iter()
            .map(|_| {
                let step = || steps.next().unwrap().map_err(io::Error::from);
                imp::fill(&mut failed, step).map_err(|e| e.kind())
            })
            .collect();
        assert_eq!(got, want);
        assert_eq!(steps.next(), None);
    }
}

/// More than the kernel moves at once into a pipe of that size, in order.
#[test]
fn a_wide_pipe_takes_what_a_socket_holds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (from, _) = listener.accept().unwrap();
    from.set_nonblocking(true).unwrap();
    let (to, mut b) = UnixStream::pair().unwrap();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i / 7 % 251) as u8).collect();
    let expected = sent.clone();
    let sender = std::thread::spawn(move || a.write_all(&sent).unwrap());
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        b.read_to_end(&mut got).unwrap();
        got
    });
    let mut pipe = Pipe::new().unwrap();
    pipe.widen();
    loop {
        match pipe.fill(from.as_fd()) {
            Ok(0) => break,
            Ok(mut left) => {
                while left > 0 {
                    match pipe.drain(to.as_fd(), left) {
                        Ok(n) => left -= n,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                        Err(e) => panic!("{e}"),
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
    drop(to);
    sender.join().unwrap();
    assert!(reader.join().unwrap() == expected);
}

#[test]
fn moves_bytes_in_order_and_reports_the_end() {
    let (mut a, from) = UnixStream::pair().unwrap();
    let (to, mut b) = UnixStream::pair().unwrap();
    from.set_nonblocking(true).unwrap();
    let mut pipe = Pipe::new().unwrap();
    assert_eq!(
        pipe.fill(from.as_fd()).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    a.write_all(b"hello").unwrap();
    assert_eq!(pipe.fill(from.as_fd()).unwrap(), 5);
    assert_eq!(pipe.drain(to.as_fd(), 2).unwrap(), 2);
    assert_eq!(pipe.drain(to.as_fd(), 3).unwrap(), 3);
    let mut got = [0; 5];
    b.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    drop(a);
    assert_eq!(pipe.fill(from.as_fd()).unwrap(), 0);
}
