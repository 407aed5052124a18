//! What comes from the process of a channel: bytes, and descriptors, which helpers look at.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

use maitred_handoff::{APP_PAYLOAD_BYTES_MAX, HEADER_BYTES, MESSAGE_DESCRIPTORS_MAX};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use super::{Arrival, Channel, RECEIVE_BYTES, RECEIVED_MAX, Received};
use crate::handoff::link::FRAME_BYTES_MAX;
use maitred_base::budget::Budget;
use maitred_base::passed::{Passed, Reading};

impl Channel {
    /// Reads once into [`Channel::input`], and descriptors into [`Channel::received`], for which `descriptors` should have room.
    /// `bytes_room` is where the kernel writes; an owner of many channels keeps one, since clearing it each time would cost more
    /// than the read.
    ///
    /// # Errors
    /// What recvmsg(2) says; `InvalidData` if frames or descriptors pile up that no rule allows.
    pub(crate) fn receive(
        &mut self,
        bytes_room: &mut [u8; RECEIVE_BYTES],
        descriptors: &Arc<Budget>,
    ) -> io::Result<Received> {
        let payload = if self.linked { FRAME_BYTES_MAX } else { APP_PAYLOAD_BYTES_MAX as usize };
        let longest = RECEIVE_BYTES + HEADER_BYTES + payload;
        if self.input.len() > longest || self.received.len() > RECEIVED_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more than any frame may have"));
        }
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut slices = [IoSliceMut::new(bytes_room)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let result = recvmsg(&self.socket, &mut slices, &mut control, flags);
        let bytes = result.as_ref().map_or(0, |message| message.bytes);
        self.input.extend_from_slice(bytes_room.get(..bytes).unwrap_or_default());
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let before = self.received.len();
        for descriptor in rights.flatten() {
            let passed = Passed::new(descriptor, descriptors.take(1), self.lane.clone());
            self.received.push_back(match passed.is_in_memory() {
                true => Arrival::File(passed, Reading::InMemory),
                false => {
                    self.unjudged.push(passed);
                    Arrival::Judging
                }
            });
        }
        self.astray |= result.as_ref().is_ok_and(|message| message.flags.contains(ReturnFlags::CTRUNC));
        // The kernel ends a read behind a message with descriptors, whatever else is there.
        let cut = self.received.len() > before;
        if cut && self.lane.is_behind() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what it has passed cannot be closed"));
        }
        match result {
            Ok(_) if bytes == 0 => Ok(Received::End),
            Ok(_) if bytes < RECEIVE_BYTES && !cut => Ok(Received::Some),
            Ok(_) => Ok(Received::More),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Drained),
            // The socket was closed with unread frames in it.
            Err(Errno::CONNRESET) => Ok(Received::End),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the next frame, of so many descriptors, has to wait for helpers that look at them.
    pub(crate) fn waits_for(&self, descriptors: usize) -> bool {
        !self.astray
            && self.received.iter().take(descriptors).any(|arrival| matches!(arrival, Arrival::Judging))
    }

    /// Helpers have looked at what they were given.
    pub(crate) fn judged(&mut self, verdicts: Vec<Arrival>) {
        self.judging = false;
        let open = self.received.iter_mut().filter(|arrival| matches!(arrival, Arrival::Judging));
        open.zip(verdicts).for_each(|(place, verdict)| *place = verdict);
    }

    /// Some descriptors were lost. Once the process has no request left, all of its frames are here, and no descriptor can belong
    /// to one that is still to come: the two are in step again. True if they are now.
    pub(crate) fn find_way_back(&mut self) -> bool {
        let over = self.load() == 0 && self.input.is_empty() && !self.judging;
        if !self.astray || !over {
            return false;
        }
        self.unjudged.clear();
        self.received.clear();
        self.astray = false;
        true
    }
}
