//! The head of a response as a value: what handlers make, decoders give, filters change, and encoders write.

use crate::fields::FieldsRef;
use crate::limits::RESPONSE_FIELDS_MAX;

/// The head of a response (9110-15, 9110-6.3).
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// What the application calls the status. HTTP/2 has no place for it (9113-8.3.2).
    pub reason: Option<&'a [u8]>,
    /// Its fields, without those of the connection, and without `Transfer-Encoding`.
    pub fields: Fields<'a>,
}

/// The fields of a response.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    /// Made here.
    Own(FieldsRef<'a>),
    /// Received.
    Received(Received<'a>),
}

/// Fields that were received and judged, in the bytes that they came in.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// From the status line to the empty line, both included.
    pub(crate) bytes: &'a [u8],
    pub(crate) fields: &'a [httparse::Header<'a>],
    pub(crate) dropped: &'a Dropped,
}

/// Which of the received fields do not go on.
#[derive(Debug, Default, Clone)]
pub(crate) struct Dropped([u64; RESPONSE_FIELDS_MAX.div_ceil(64)]);

impl Dropped {
    #[inline]
    pub(crate) fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    pub(crate) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
    }
}

impl<'a> ResponseHead<'a> {
    /// A head that was made here.
    pub fn own(status: u16, fields: FieldsRef<'a>) -> ResponseHead<'a> {
        ResponseHead { status, reason: None, fields: Fields::Own(fields) }
    }

    /// Gives each field, name and value, in their order.
    #[inline]
    pub fn for_each(&self, mut take: impl FnMut(&'a [u8], &'a [u8])) {
        match self.fields {
            Fields::Own(fields) => fields.iter().for_each(|(name, value)| take(name, value)),
            Fields::Received(received) => {
                let fields = received.fields.iter().enumerate();
                let kept = fields.filter(|(at, _)| !received.dropped.has(*at));
                kept.for_each(|(_, field)| take(field.name.as_bytes(), field.value));
            }
        }
    }
}
