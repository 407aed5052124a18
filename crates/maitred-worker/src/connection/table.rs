//! What a connection does about an event, state by state: one table, [`reaction`]. The table decides, and touches nothing.
//!
//! Columns are what can happen to any connection ([`Event`]); what belongs to one state alone (DONE of a process, the answer of
//! the master, a helper thread that has finished) is handled by the file of that state.
//!
//! | state | arrived | ended | gone | room | again | deadline | aborted |
//! |---|---|---|---|---|---|---|---|
//! | `Idle` | read | read | read | – | read | close¹ | drop |
//! | `Handshake` | note | drop | drop | – | – | alert, close | drop |
//! | `Head` | read | read | read | – | read | 408¹ | log, drop |
//! | `Body` | read | read | read | – | read | 408² | log, drop |
//! | `Spooling`, `Disk` | note | note | note | – | – | – | log, drop |
//! | `Gate` | note | note⁵ | log, drop | – | – | refused | log, drop |
//! | `Queued` | note | note | leave | – | – | 503 | leave |
//! | `HandedOff` | note | tell | tell | – | – | overdue | log, drop |
//! | `Upstream` | move³ | tell, move³ | drop⁴ | move | move | overdue | drop |
//! | `Command` | note | note | note | – | – | 504 | drop |
//! | `Watching` | – | close | close | status | – | stalled | drop |
//! | `Multiplexed` | frames | frames | frames | send | frames, send | idle or stalled | drop |
//! | `Writing` | note | note | drop | send | send | stalled | drop |
//! | `Linger` | drop input | drop input | drop input | – | drop input | over | drop |
//!
//! ¹ Refused, if a PROXY header is missing. ² Closed, if the request has its answer already. ³ If it is a tunnel, or the
//! body of its request goes on while it comes; otherwise noted. ⁴ A tunnel's is what was sent last, which may still be read.
//! ⁵ A delayed request ends soon.
//!
//! *note*: the bytes stay in the kernel, and `Connection::readable` is set for the next read, since an edge comes only once.

use super::State;

/// A [`State`] without what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between requests.
    Idle,
    /// Waiting for a certificate.
    Handshake,
    /// Part of a head.
    Head,
    /// Part of a body.
    Body,
    /// A piece of its body is on the way to the disk.
    Spooling,
    /// At the disk.
    Disk,
    /// Waiting for what a gate says.
    Gate,
    /// Waiting for an application process.
    Queued,
    /// Owned by an application process.
    HandedOff,
    /// An upstream answers.
    Upstream,
    /// At the master.
    Command,
    /// Gets the status every second.
    Watching,
    /// HTTP/2.
    Multiplexed,
    /// Response on its way.
    Writing,
    /// Response out; drains.
    Linger,
}

/// What can happen to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Something is there to be read.
    Arrived,
    /// The client has finished sending.
    Ended,
    /// The connection has broken, or both sides have finished.
    Gone,
    /// The socket takes more.
    Room,
    /// The turn has come in which it was to be looked at again.
    Again,
    /// The deadline of the connection has passed.
    Deadline,
    /// The connection has to end, in any state.
    Aborted,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing.
    Nothing,
    /// What has come is noted, and stays in the kernel.
    Note,
    /// Reads, and acts on what is there.
    Read,
    /// The same of an HTTP/2 connection, unless that has too much to send.
    ReadFrames,
    /// The same, and sends.
    ReadFramesAndSend,
    /// Has an HTTP/2 connection send at the end of the turn.
    SendFrames,
    /// Sends what is left.
    Send,
    /// Reads, and drops what was read.
    DropInput,
    /// Moves what can be moved between client and upstream.
    Move,
    /// The same, from the client, if that is read: for a tunnel, or a body that goes on while it comes. Otherwise as
    /// [`Reaction::Note`].
    MoveFromClient,
    /// The upstream or the process is informed that the client has finished sending.
    TellEnded,
    /// The same, and what the client is read for is moved on.
    TellEndedAndMove,
    /// Ends, unless it is a tunnel, which may still have something to read.
    AbortUnlessTunnel,
    /// What has come is noted; a request that is delayed gets no more than a short time.
    NoteGatedEnd,
    /// Leaves the queue, and ends.
    LeaveQueue,
    /// Sends the status that is waiting.
    SendStatus,
    /// Ends at once.
    Drop,
    /// Logs that there was no answer, and ends.
    DropUnanswered,
    /// A process that had the client's socket does not get it back: the same.
    DropHandedOff,
    /// Ends in the middle of a response.
    Abort,
    /// Between requests for too long.
    IdleTooLong,
    /// No head, or no body, in time.
    RequestTooSlow,
    /// No certificate has come in time.
    HandshakeTooLong,
    /// No gate has said anything in time.
    GatedTooLong,
    /// In the queue for too long.
    QueuedTooLong,
    /// At a process that has the client's socket for too long.
    HandedOffTooLong,
    /// At an upstream for too long.
    UpstreamTooLong,
    /// The master has not answered.
    CommandTooLong,
    /// The client takes nothing.
    Stalled,
    /// An HTTP/2 or HTTP/3 connection is idle, or takes nothing.
    MultiplexedTooLong,
    /// The connection has lingered for long enough.
    Lingered,
}

impl State {
    /// The state without its keys.
    pub(crate) fn phase(&self) -> Phase {
        match self {
            State::Idle => Phase::Idle,
            State::Handshake => Phase::Handshake,
            State::Head => Phase::Head,
            State::Body => Phase::Body,
            State::Spooling => Phase::Spooling,
            State::Disk => Phase::Disk,
            State::Gate => Phase::Gate,
            State::Queued { .. } => Phase::Queued,
            State::HandedOff { .. } => Phase::HandedOff,
            State::Upstream(_) => Phase::Upstream,
            State::Command => Phase::Command,
            State::Watching => Phase::Watching,
            State::Multiplexed { .. } => Phase::Multiplexed,
            State::Writing => Phase::Writing,
            State::Linger => Phase::Linger,
        }
    }
}

/// The table.
pub(crate) fn reaction(phase: Phase, event: Event) -> Reaction {
    use Phase as P;
    use Reaction as R;
    let [arrived, ended, gone, room, again, deadline, aborted] = match phase {
        P::Idle => [R::Read, R::Read, R::Read, R::Nothing, R::Read, R::IdleTooLong, R::Abort],
        P::Handshake => [R::Note, R::Drop, R::Drop, R::Nothing, R::Nothing, R::HandshakeTooLong, R::Abort],
        P::Head | P::Body => {
            [R::Read, R::Read, R::Read, R::Nothing, R::Read, R::RequestTooSlow, R::DropUnanswered]
        }
        P::Spooling | P::Disk => {
            [R::Note, R::Note, R::Note, R::Nothing, R::Nothing, R::Nothing, R::DropUnanswered]
        }
        P::Gate => {
            let drop = R::DropUnanswered;
            [R::Note, R::NoteGatedEnd, drop, R::Nothing, R::Nothing, R::GatedTooLong, drop]
        }
        P::Queued => {
            [R::Note, R::Note, R::LeaveQueue, R::Nothing, R::Nothing, R::QueuedTooLong, R::LeaveQueue]
        }
        P::HandedOff => {
            let tell = R::TellEnded;
            [R::Note, tell, tell, R::Nothing, R::Nothing, R::HandedOffTooLong, R::DropHandedOff]
        }
        P::Upstream => [
            R::MoveFromClient,
            R::TellEndedAndMove,
            R::AbortUnlessTunnel,
            R::Move,
            R::Move,
            R::UpstreamTooLong,
            R::Abort,
        ],
        P::Command => [R::Note, R::Note, R::Note, R::Nothing, R::Nothing, R::CommandTooLong, R::Abort],
        P::Watching => [R::Nothing, R::Drop, R::Drop, R::SendStatus, R::Nothing, R::Stalled, R::Abort],
        P::Multiplexed => {
            let read = R::ReadFrames;
            [read, read, read, R::SendFrames, R::ReadFramesAndSend, R::MultiplexedTooLong, R::Abort]
        }
        P::Writing => [R::Note, R::Note, R::Abort, R::Send, R::Send, R::Stalled, R::Abort],
        P::Linger => {
            let read = R::DropInput;
            [read, read, read, R::Nothing, read, R::Lingered, R::Abort]
        }
    };
    match event {
        Event::Arrived => arrived,
        Event::Ended => ended,
        Event::Gone => gone,
        Event::Room => room,
        Event::Again => again,
        Event::Deadline => deadline,
        Event::Aborted => aborted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 15] = [
        Phase::Idle,
        Phase::Handshake,
        Phase::Head,
        Phase::Body,
        Phase::Spooling,
        Phase::Disk,
        Phase::Gate,
        Phase::Queued,
        Phase::HandedOff,
        Phase::Upstream,
        Phase::Command,
        Phase::Watching,
        Phase::Multiplexed,
        Phase::Writing,
        Phase::Linger,
    ];

    fn which(event: Event, reactions: &[Reaction]) -> Vec<Phase> {
        PHASES.into_iter().filter(|phase| reactions.contains(&reaction(*phase, event))).collect()
    }

    #[test]
    fn whatever_waits_has_a_deadline_but_at_the_disk() {
        assert_eq!(which(Event::Deadline, &[Reaction::Nothing]), [Phase::Spooling, Phase::Disk]);
    }

    #[test]
    fn whatever_it_is_at_it_can_be_ended() {
        assert_eq!(which(Event::Aborted, &[Reaction::Nothing, Reaction::Note]), []);
    }

    #[test]
    fn nothing_that_has_come_is_forgotten() {
        // A client that watches the status has nothing to send; in other states, what comes is read, noted, or dropped.
        assert_eq!(which(Event::Arrived, &[Reaction::Nothing]), [Phase::Watching]);
        let ignored = which(Event::Ended, &[Reaction::Nothing]);
        assert_eq!(ignored, []);
    }

    #[test]
    fn a_client_that_has_gone_leaves_nothing_behind_but_where_somebody_still_works_for_it() {
        let noted = which(Event::Gone, &[Reaction::Note, Reaction::Nothing]);
        assert_eq!(noted, [Phase::Spooling, Phase::Disk, Phase::Command], "these end by themselves");
    }

    #[test]
    fn who_has_something_to_send_goes_on_when_there_is_room() {
        let send = [Reaction::Send, Reaction::SendFrames, Reaction::SendStatus, Reaction::Move];
        let senders = [Phase::Upstream, Phase::Watching, Phase::Multiplexed, Phase::Writing];
        assert_eq!(which(Event::Room, &send), senders);
        assert_eq!(which(Event::Room, &[Reaction::Nothing]).len() + senders.len(), PHASES.len());
    }
}
