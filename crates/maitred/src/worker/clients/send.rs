//! DOC send.rs

use super::Clients;
use crate::serve::DiskJob;
use crate::worker::connection::State;
use crate::worker::inbox::Message;

impl Clients {
    /// Waits for room in the socket.
    pub(in crate::worker) fn start_writing(&mut self, index: u32) {
        self.enter(index, State::Writing);
        let timeout = self.load.write_timeout;
        self.arm_in(index, timeout);
    }

    pub(in crate::worker) fn progress(&mut self, index: u32) {
        let timeout = self.load.write_timeout;
        self.arm_in(index, timeout);
    }

    /// Gives a job to the helper threads. False when they have too much to do.
    pub(in crate::worker) fn submit(&mut self, index: u32, job: DiskJob) -> bool {
        let (inbox, serial) = (&self.shared.inboxes[self.number], self.connections[index as usize].serial);
        let done = Box::new(move |result| inbox.send(Message::DiskDone { index, serial, result }));
        self.row.disk_waits.add(1);
        self.shared.disk.submit(job, done).is_ok()
    }
}
