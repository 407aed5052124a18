//! The thread of a path, and the handle to it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use crate::config::{Config, Faults};
use crate::counts::Counts;
use crate::runner::Runner;

/// A path with faults.
#[derive(Debug)]
pub struct Path;

impl Path {
    /// Starts a path to this server, on a thread of its own.
    ///
    /// # Errors
    /// The server is not on loopback, or what the kernel says of sockets and threads.
    pub fn start(config: Config, server: SocketAddr) -> io::Result<Handle> {
        if !server.ip().is_loopback() || !config.listen.ip().is_loopback() {
            return Err(io::Error::other("a path is for servers and clients on loopback"));
        }
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, commands) = channel();
        let runner = Runner::new(config, server, Arc::clone(&wake), commands)?;
        let address = runner.address()?;
        let thread = std::thread::Builder::new().name("udp path".to_owned()).spawn(move || runner.run())?;
        Ok(Handle { address, commands: sender, wake, thread: Some(thread) })
    }
}

/// What the thread is asked to do; it answers when that is done.
#[derive(Debug)]
pub(crate) enum Command {
    Rebind(Sender<io::Result<()>>),
    Counts(Sender<Counts>),
    /// Other faults, to the server and to clients.
    Change(Box<[Faults; 2]>, Sender<()>),
    Stop,
}

/// A path that runs. The path ends when this is dropped; what is on its way then is lost.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<Counts>>>,
}

impl Handle {
    /// Where clients send to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has all clients' datagrams go on from other ports. When it returns, they do, and the old ones are closed.
    ///
    /// # Errors
    /// When no other socket can be had, or the path has ended.
    pub fn rebind(&self) -> io::Result<()> {
        self.ask(Command::Rebind)?
    }

    /// What has become of all datagrams so far; a datagram that was received from the path is counted.
    ///
    /// # Errors
    /// The path has ended.
    pub fn counts(&self) -> io::Result<Counts> {
        self.ask(Command::Counts)
    }

    /// Other faults for datagrams that come from now on.
    ///
    /// # Errors
    /// The path has ended.
    pub fn change(&self, to_server: Faults, to_client: Faults) -> io::Result<()> {
        self.ask(|answer| Command::Change(Box::new([to_server, to_client]), answer))
    }

    /// Ends the path.
    ///
    /// # Errors
    /// Why it ended before.
    pub fn finish(mut self) -> io::Result<Counts> {
        self.stop().unwrap_or_else(ended)
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> io::Result<T> {
        let (sender, answer): (Sender<T>, Receiver<T>) = channel();
        // A thread that has ended has no receiver, so that this fails with the answer.
        let _ = self.commands.send(command(sender));
        self.wake()?;
        answer.recv().or_else(|_| ended())
    }

    fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn stop(&mut self) -> Option<io::Result<Counts>> {
        let thread = self.thread.take()?;
        let _ = self.commands.send(Command::Stop);
        let _ = self.wake();
        thread.join().ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ended<T>() -> io::Result<T> {
    Err(io::Error::other("the path has ended"))
}
