//! The encoder of one response, and the encoders of a thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use flate2::{Compress, Compression, FlushCompress, Status};
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use maitred_config::Coding;

/// 128 KiB: a larger window takes more memory for each encoder, and saves next to nothing in what applications send.
const ZSTD_WINDOW_LOG: u32 = 17;
/// Entries of its tables: for content of unknown length the level's own would take 768 KiB, and the time to empty them.
const ZSTD_TABLE_LOG: u32 = 14;
/// As RFC 1951 has it: 32 KiB.
const GZIP_WINDOW_LOG: u8 = 15;
/// Encoders of each coding that are kept for the next responses. A response that comes whole needs one for a moment, so that few
/// are enough.
const IDLE_MAX: usize = 4;
/// What an encoder gets at a time for what it makes.
const OUT_BYTES: usize = 4096;

/// The encoders of a thread: so many at a time, of which a few are kept when they are not in use.
#[derive(Clone)]
pub struct Encoders {
    shared: Rc<Shared>,
}

/// What the encoders of a thread have done. All but the first only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Encoders in use.
    pub in_use: u32,
    /// Responses that got zstd.
    pub zstd: u64,
    /// Responses that got gzip.
    pub gzip: u64,
    /// Responses that went out as they were, because all encoders were in use, or memory was short.
    pub refused: u64,
    /// Bytes of content that encoders have taken.
    pub bytes_in: u64,
    /// Bytes that they have made of that.
    pub bytes_out: u64,
}

struct Shared {
    in_use_max: u32,
    counts: Cell<Use>,
    zstd: RefCell<Vec<CCtx<'static>>>,
    gzip: RefCell<Vec<(u8, Compress)>>,
}

/// The encoder of one response: content in, bytes in its coding out. Dropping the coder gives the encoder back.
pub struct Coder {
    /// `None` once it has ended, or has failed.
    engine: Option<Engine>,
    level: u8,
    made: Vec<u8>,
    /// Whether the encoder has taken content of which a decoder cannot know yet.
    holds: bool,
    failed: bool,
    shared: Rc<Shared>,
}

enum Engine {
    Zstd(CCtx<'static>),
    Gzip(Compress),
}

/// An encoder cannot go on: memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// What an encoder is to do behind the content that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Flush,
    Finish,
}

impl Encoders {
    /// No more than so many at a time.
    pub fn new(in_use_max: u32) -> Encoders {
        let (zstd, gzip) = (RefCell::default(), RefCell::default());
        Encoders { shared: Rc::new(Shared { in_use_max, counts: Cell::default(), zstd, gzip }) }
    }

    /// How many are in use, and what they have done.
    #[inline]
    pub fn counts(&self) -> Use {
        self.shared.counts.get()
    }

    /// An encoder for content of this length, if that is known. `None` if all are in use, or memory is short; and for Brotli,
    /// which is too slow for what is not kept.
    pub fn begin(&self, coding: Coding, level: u8, length: Option<u64>) -> Option<Coder> {
        let shared = &self.shared;
        let free = shared.counts.get().in_use < shared.in_use_max;
        let engine = match coding {
            Coding::Brotli => return None,
            _ if !free => None,
            Coding::Zstd => shared.zstd(level, length).map(Engine::Zstd),
            Coding::Gzip => Some(Engine::Gzip(shared.gzip(level))),
        };
        shared.count(|counts| match &engine {
            None => counts.refused += 1,
            Some(Engine::Zstd(_)) => (counts.in_use, counts.zstd) = (counts.in_use + 1, counts.zstd + 1),
            Some(Engine::Gzip(_)) => (counts.in_use, counts.gzip) = (counts.in_use + 1, counts.gzip + 1),
        });
        let engine = engine?;
        let (made, shared) = (Vec::new(), Rc::clone(shared));
        Some(Coder { engine: Some(engine), level, made, holds: false, failed: false, shared })
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Use)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn zstd(&self, level: u8, length: Option<u64>) -> Option<CCtx<'static>> {
        let mut context = match self.zstd.borrow_mut().pop() {
            Some(context) => context,
            None => CCtx::try_create()?,
        };
        context.reset(ResetDirective::SessionAndParameters).ok()?;
        context.set_parameter(CParameter::CompressionLevel(level.into())).ok()?;
        context.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG)).ok()?;
        context.set_parameter(CParameter::HashLog(ZSTD_TABLE_LOG)).ok()?;
        context.set_parameter(CParameter::ChainLog(ZSTD_TABLE_LOG)).ok()?;
        context.set_pledged_src_size(length).ok()?;
        Some(context)
    }

    fn gzip(&self, level: u8) -> Compress {
        let idle = self.gzip.borrow_mut().pop();
        match idle.filter(|(of, _)| *of == level) {
            Some((_, mut encoder)) => {
                encoder.reset();
                encoder
            }
            None => Compress::new_gzip(Compression::new(level.into()), GZIP_WINDOW_LOG),
        }
    }

    fn give_back(&self, engine: Engine, level: u8, ended: bool) {
        self.count(|counts| counts.in_use = counts.in_use.saturating_sub(1));
        match engine {
            Engine::Zstd(context) => keep(&self.zstd, context),
            Engine::Gzip(encoder) if ended => keep(&self.gzip, (level, encoder)),
            // zlib-rs 0.6.8 does not forget, when it is reset, what it has of a block that was not completed.
            Engine::Gzip(_) => {}
        }
    }
}

fn keep<T>(idle: &RefCell<Vec<T>>, one: T) {
    let mut idle = idle.borrow_mut();
    if idle.len() < IDLE_MAX {
        idle.push(one);
    }
}

impl Coder {
    /// Takes content.
    pub fn write(&mut self, content: &[u8]) {
        self.holds |= !content.is_empty();
        self.work(content, Then::GoOn);
    }

    /// Whether it has taken content of which a decoder cannot know yet.
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// What it has taken is to be read by a decoder now.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.work(&[], Then::Flush);
        }
    }

    /// Nothing follows. The encoder is free for another response.
    pub fn finish(&mut self) {
        self.holds = false;
        self.work(&[], Then::Finish);
        self.release(true);
    }

    /// What it has made, to be taken out.
    ///
    /// # Errors
    /// If it has failed: the response cannot be completed.
    pub fn made(&mut self) -> Result<&mut Vec<u8>, Failed> {
        if self.failed { Err(Failed) } else { Ok(&mut self.made) }
    }

    fn work(&mut self, content: &[u8], then: Then) {
        let before = self.made.len();
        let done = match &mut self.engine {
            Some(Engine::Zstd(context)) => zstd(context, content, then, &mut self.made),
            Some(Engine::Gzip(encoder)) => gzip(encoder, content, then, &mut self.made),
            None => Err(Failed),
        };
        let made = self.made.len().saturating_sub(before) as u64;
        self.shared.count(|counts| {
            counts.bytes_in += content.len() as u64;
            counts.bytes_out += made;
        });
        if done.is_err() {
            self.failed = true;
            self.release(false);
        }
    }

    fn release(&mut self, ended: bool) {
        if let Some(engine) = self.engine.take() {
            self.shared.give_back(engine, self.level, ended);
        }
    }
}

fn zstd(context: &mut CCtx<'static>, content: &[u8], then: Then, made: &mut Vec<u8>) -> Result<(), Failed> {
    let directive = match then {
        Then::GoOn => Directive::ZSTD_e_continue,
        Then::Flush => Directive::ZSTD_e_flush,
        Then::Finish => Directive::ZSTD_e_end,
    };
    let mut input = InBuffer::around(content);
    loop {
        made.reserve(OUT_BYTES);
        let at = made.len();
        let mut output = OutBuffer::around_pos(made, at);
        let left = context.compress_stream2(&mut output, &mut input, directive).map_err(|_| Failed)?;
        let is_done = match then {
            Then::GoOn => input.pos() == content.len(),
            Then::Flush | Then::Finish => left == 0,
        };
        if is_done {
            return Ok(());
        }
    }
}

fn gzip(encoder: &mut Compress, content: &[u8], then: Then, made: &mut Vec<u8>) -> Result<(), Failed> {
    let flush = match then {
        Then::GoOn => FlushCompress::None,
        Then::Flush => FlushCompress::Sync,
        Then::Finish => FlushCompress::Finish,
    };
    let mut rest = content;
    loop {
        made.reserve(OUT_BYTES);
        let before = encoder.total_in();
        let status = encoder.compress_vec(rest, made, flush).map_err(|_| Failed)?;
        let taken = usize::try_from(encoder.total_in() - before).map_err(|_| Failed)?;
        rest = rest.get(taken..).unwrap_or_default();
        let is_done = match then {
            Then::GoOn => rest.is_empty(),
            // Room that was left says that nothing more was to be written there.
            Then::Flush => made.len() < made.capacity(),
            Then::Finish => status == Status::StreamEnd,
        };
        if is_done {
            return Ok(());
        }
    }
}

impl Drop for Coder {
    fn drop(&mut self) {
        self.release(false);
    }
}

impl fmt::Debug for Encoders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoders").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Coder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Coder").field("made", &self.made.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod decoding;

#[cfg(test)]
mod tests;
