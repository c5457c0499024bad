//! Until the workers are there: everything that traps is left to the kernel, and so to the floor, which refuses it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::{BrokerError, Door, Supervisor};
use crate::sys::notify::{Answer, Buffers, answer, receive};

pub(super) fn start(door: Door) -> Result<Supervisor, BrokerError> {
    let failed = |e: io::Error| BrokerError::Start(e);
    let (read, write) = nix::unistd::pipe().map_err(|e| failed(e.into()))?;
    let buffers = Buffers::new().map_err(|e| failed(e.into()))?;
    let alarm = write.try_clone().map_err(failed)?;
    std::thread::Builder::new()
        .name("broker".to_owned())
        .spawn(move || {
            if serve(&door, buffers).is_err() {
                let _ = nix::unistd::write(&alarm, b"!");
            }
        })
        .map_err(failed)?;
    Ok(Supervisor {
        failed: read,
        _alarm: write,
    })
}

fn serve(door: &Door, mut buffers: Buffers) -> Result<(), Errno> {
    let listener: &OwnedFd = &door.listener;
    loop {
        let request = match receive(listener.as_fd(), &mut buffers) {
            Ok(request) => request,
            Err(Errno::ENOENT) if over(listener) => return Ok(()),
            Err(Errno::EINTR | Errno::ENOENT) => continue,
            Err(e) => return Err(e),
        };
        match answer(listener.as_fd(), &mut buffers, request.id, Answer::Continue) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Nobody is left who could call.
fn over(listener: &OwnedFd) -> bool {
    crate::sys::fds::poll([listener.as_fd()], Some(std::time::Duration::ZERO))
        .is_ok_and(|[end]| end.hung_up)
}
