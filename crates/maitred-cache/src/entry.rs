//! What is stored under a key.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use maitred_http::fields::FieldLines;

use super::key::Hash;

/// Where the body begins in a file.
pub const BODY_OFFSET: u64 = super::layout::HEADER_BYTES as u64;

/// Numbers about the life of an entry that the store keeps and does not read.
pub type Lifetime = [u64; 8];

/// What an entry is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Kind {
    /// A response.
    #[default]
    Response,
    /// A note that the responses of this key vary: those are entries of other keys, which the caller makes of this key, `epoch`
    /// and the request's fields of these names.
    Vary {
        /// Names of fields.
        names: Vec<Box<[u8]>>,
        /// What keys of the variants contain. Another note has another one: after a purge of this key none of them is found
        /// again.
        epoch: u64,
    },
}

/// All that is known of a response beside its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Status code.
    pub status: u16,
    /// The fields of the response.
    pub fields: FieldLines,
    /// The caller's own.
    pub lifetime: Lifetime,
    /// From then on it is of no use, not even a stale one; seconds since 1970.
    pub keep_until: u64,
    /// By which it can be purged.
    pub tags: Vec<Box<[u8]>>,
}

/// Where a body is.
#[derive(Debug, Clone)]
pub enum Body {
    /// In memory.
    Memory(Arc<[u8]>),
    /// In a file, which may have been removed since from its directory.
    File {
        /// Open for reading.
        file: Arc<File>,
        /// Of its first byte.
        offset: u64,
        /// In bytes.
        len: u64,
    },
}

impl Body {
    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty, reason = "a body without content is one like any other")]
    pub fn len(&self) -> u64 {
        match self {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File { len, .. } => *len,
        }
    }
}

/// Something that is stored. An entry does not change, but for what the store notes about it.
#[derive(Debug)]
pub struct Entry {
    /// The head of the response.
    pub head: Head,
    /// The body of the response.
    pub body: Body,
    pub(super) key: Box<[u8]>,
    pub(super) marks: Marks,
    pub(super) soft_purged: AtomicBool,
    /// When it was tested last against the rules of purges.
    pub(super) tested: AtomicU64,
    /// The entry's slot in the table, as far as is known.
    pub(super) place: AtomicU32,
}

/// What tells entries of one key apart, and what is older than what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) hash: Hash,
    /// Number of its file: of its body.
    pub(super) file: u64,
    /// Number of its head. Numbers only grow.
    pub(super) stamp: u64,
    /// The generation of its key when it was taken from the disk, or begun.
    pub(super) generation: u64,
    /// The latest of the rules then.
    pub(super) tested: u64,
}

impl Marks {
    /// Of two entries of a key, the newer one has the greater one.
    pub(super) fn age(&self) -> (u64, u64) {
        (self.file, self.stamp)
    }
}

impl Entry {
    pub(super) fn new(key: &[u8], head: Head, body: Body, marks: Marks) -> Entry {
        Entry {
            head,
            body,
            key: key.into(),
            marks,
            soft_purged: AtomicBool::new(false),
            tested: AtomicU64::new(marks.tested),
            place: AtomicU32::new(u32::MAX),
        }
    }

    /// The number of its body: another one for each that was stored, whatever its key is.
    pub fn body_number(&self) -> u64 {
        self.marks.file
    }

    /// The text of its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether the entry was purged, but may be served as a stale one.
    pub fn is_soft_purged(&self) -> bool {
        self.soft_purged.load(Relaxed)
    }

    /// Bytes of memory that it takes.
    pub(super) fn cost_bytes(&self) -> u64 {
        let lines: usize =
            self.head.fields.all().iter().map(|(name, value)| name.len() + value.len() + LINE_COST).sum();
        let names = match &self.head.kind {
            Kind::Response => 0,
            Kind::Vary { names, .. } => list_cost(names),
        };
        let body = match &self.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File { .. } => size_of::<File>() + 2 * size_of::<usize>(),
        };
        (size_of::<Entry>() + self.key.len() + lines + names + list_cost(&self.head.tags) + body) as u64
    }

    /// Descriptors that it holds open.
    pub(super) fn cost_files(&self) -> u32 {
        u32::from(matches!(self.body, Body::File { .. }))
    }
}

/// What a field takes beside name and value: separators, and three places.
const LINE_COST: usize = 16;

fn list_cost(list: &[Box<[u8]>]) -> usize {
    list.iter().map(|item| item.len() + size_of::<Box<[u8]>>()).sum()
}
