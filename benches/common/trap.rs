//! The least that a supervised call can cost: the same calls trap as with the broker, and somebody says "go on" to each.

use std::os::fd::AsFd;
use std::sync::mpsc::channel;

use ccbox::session::harden::{FilterOptions, filter_program, install_broker_filter, landlock_abi};
use ccbox::sys::fds::poll;
use ccbox::sys::notify::{Answer, Buffers, answer, receive, wake_up_on_one_cpu};

/// Does something, and lets it and all it starts wait for an answer at each call that the broker would see.
pub(crate) fn trapped(work: impl FnOnce() + Send + 'static) {
    let options = FilterOptions {
        unix_sockets: false,
        open_network: false,
        landlock_abi: landlock_abi(),
        broker: true,
        reads: false,
        sockets: false,
        alone: false,
        no_network: false,
        by_proxies: false,
    };
    let program = filter_program(options).unwrap();
    let (to_supervisor, from_worker) = channel();
    let worker = std::thread::spawn(move || {
        let listener = install_broker_filter(&program).unwrap();
        // This process is the supervisor as well, and goes on without the filter.
        to_supervisor.send(listener.fd).unwrap();
        work();
    });
    let listener = from_worker.recv().unwrap();
    wake_up_on_one_cpu(listener.as_fd()).unwrap();
    let mut buffers = Buffers::new().unwrap();
    loop {
        if let Ok(request) = receive(listener.as_fd(), &mut buffers) {
            // Who was killed meanwhile needs none.
            let _gone = answer(listener.as_fd(), &mut buffers, request.id, Answer::Continue);
            continue;
        }
        let [seen] = poll([listener.as_fd()], Some(std::time::Duration::ZERO)).unwrap();
        if seen.hung_up {
            break;
        }
    }
    worker.join().unwrap();
}
