//! Fields whose value is a list, which may go on in further lines.

use std::borrow::Cow;

/// The value of such a field: all its lines, in their order, are one list (9110-5.2, 5.3). Nearly always there is one line.
#[derive(Debug, Clone, Copy)]
pub struct List<'b> {
    first: &'b [u8],
    /// The fields from the second line on, if there is one.
    rest: &'b [httparse::Header<'b>],
    /// In small letters.
    name: &'static str,
}

impl<'b> List<'b> {
    /// The value of a field that is there once.
    pub fn of(value: &'b [u8]) -> Option<List<'b>> {
        Some(List { first: value, rest: &[], name: "" })
    }

    /// The value of a field whose first line is this, and which may go on in these fields.
    #[inline]
    pub(super) fn of_lines(
        first: &'b [u8],
        rest: &'b [httparse::Header<'b>],
        name: &'static str,
    ) -> List<'b> {
        List { first, rest, name }
    }

    /// The value of the field's first line.
    #[inline]
    pub(super) fn first(&self) -> &'b [u8] {
        self.first
    }

    /// If it may go on, in how many of the last fields.
    #[inline]
    pub(super) fn further(&self) -> Option<usize> {
        (!self.rest.is_empty()).then_some(self.rest.len())
    }

    /// Takes the line of the field that `fields` has at this place.
    #[inline]
    pub(super) fn take(
        slot: &mut Option<List<'b>>,
        name: &'static str,
        fields: &'b [httparse::Header<'b>],
        at: usize,
    ) {
        let line = fields.get(at..).unwrap_or_default();
        match slot {
            None => *slot = line.first().map(|field| List { first: field.value, rest: &[], name }),
            Some(list) if list.rest.is_empty() => list.rest = line,
            Some(_) => {}
        }
    }

    /// The whole list, as if it had come in one line.
    #[inline]
    pub fn joined(&self) -> Cow<'b, [u8]> {
        if self.rest.is_empty() { Cow::Borrowed(self.first) } else { Cow::Owned(self.join()) }
    }

    #[cold]
    fn join(&self) -> Vec<u8> {
        let mut joined = self.first.to_vec();
        for field in self.rest.iter().filter(|field| field.name.eq_ignore_ascii_case(self.name)) {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(field.value);
        }
        joined
    }
}
