//! What ccbox is compared with: CONNECT proxies for one destination that ask no policy and keep no account.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{ADDRESS, CLIENTS, SPLICER};

/// Only copies, on the same runtime as ccbox's, with the same size of buffer.
pub(crate) fn copy() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    // Ends with the benchmark, however that ends.
    let (gone, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(gone);
    });
    let relaying = async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind(super::RELAY).await.unwrap();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut head, mut some) = (Vec::new(), [0; 512]);
                while !head.ends_with(b"\r\n\r\n") {
                    let n = client.read(&mut some).await?;
                    if n == 0 {
                        return Ok(());
                    }
                    head.extend_from_slice(&some[..n]);
                }
                let mut far = tokio::net::TcpStream::connect(ADDRESS).await?;
                client.set_nodelay(true)?;
                far.set_nodelay(true)?;
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let size = 64 * 1024;
                tokio::io::copy_bidirectional_with_sizes(&mut client, &mut far, size, size).await?;
                Ok::<_, std::io::Error>(())
            });
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = relaying => {}
            _ = ended => {}
        }
    });
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
/// The most that an ordinary user gets (`fs.pipe-max-size`).
const PIPE: usize = 1 << 20;
/// As in ccbox: a call that moves less is not worth another one.
const WORTH: usize = 256 * 1024;

/// Only splices, with a thread for each direction and no event loop: what splice(2) can do on this kernel.
pub(crate) fn splices() {
    let listener = TcpListener::bind(SPLICER).unwrap();
    // They stay, and with them the account of their time on a processor.
    for _ in 0..4 * CLIENTS {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            loop {
                let (client, _) = listener.accept().unwrap();
                // The client is told by what it misses.
                let _ = relay_one(client);
            }
        });
    }
    // Ends with the benchmark, however that ends.
    let _ = std::io::stdin().read(&mut [0]);
}

fn relay_one(mut client: TcpStream) -> std::io::Result<()> {
    let (mut head, mut some) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        let n = client.read(&mut some)?;
        if n == 0 {
            return Ok(());
        }
        head.extend_from_slice(&some[..n]);
    }
    let far = TcpStream::connect(ADDRESS)?;
    client.set_nodelay(true)?;
    far.set_nodelay(true)?;
    client.write_all(ANSWER)?;
    let (mut from, mut to) = (client.try_clone()?, far.try_clone()?);
    std::thread::spawn(move || {
        // Eight bytes now and then.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    // Splicing out of a socket waits unless the socket itself does not: SPLICE_F_NONBLOCK is of the pipe.
    far.set_nonblocking(true)?;
    splice_all(&far, &client)?;
    client.shutdown(Shutdown::Write)
}

fn splice_all(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let (read, write) = nix::unistd::pipe()?;
    fcntl(&write, FcntlArg::F_SETPIPE_SZ(i32::try_from(PIPE).unwrap()))?;
    loop {
        let mut wait = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        poll(&mut wait, PollTimeout::NONE)?;
        let (mut held, mut last) = (0, WORTH);
        while last >= WORTH {
            let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
            last = match splice(from, None, &write, None, PIPE, flags) {
                Ok(0) if held == 0 => return Ok(()),
                Ok(n) => n,
                Err(Errno::EAGAIN) => 0,
                Err(e) => return Err(e.into()),
            };
            held += last;
        }
        while held > 0 {
            held -= splice(&read, None, to, None, held, SpliceFFlags::SPLICE_F_MOVE)?;
        }
    }
}
