//! What ccbox is compared with: CONNECT proxies for one destination that ask no policy and keep no account.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use ccbox::sys::splice::Pipe;
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
    // Splicing out of a socket waits unless the socket itself does not.
    far.set_nonblocking(true)?;
    splice_all(&far, &client)?;
    client.shutdown(Shutdown::Write)
}

/// Through a pipe like those of ccbox, which refill as long as it is worth a call.
fn splice_all(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let mut pipe = Pipe::new()?;
    pipe.widen();
    loop {
        let mut wait = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        poll(&mut wait, PollTimeout::NONE)?;
        let mut held = match pipe.fill(from.as_fd()) {
            Ok(0) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
            filled => filled?,
        };
        while held > 0 {
            held -= pipe.drain(to.as_fd(), held)?;
        }
    }
}
