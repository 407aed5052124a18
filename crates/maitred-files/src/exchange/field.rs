//! A field of a response that is made here, besides those that every one has.

use std::borrow::Cow;

/// Name and value. The value was judged, or made of parts that were: it holds no CR, LF or NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, a token.
    pub name: &'static str,
    /// The value.
    pub value: Cow<'a, [u8]>,
}

impl<'a> Field<'a> {
    /// A field with a borrowed value.
    pub const fn new(name: &'static str, value: &'a str) -> Field<'a> {
        Field { name, value: Cow::Borrowed(value.as_bytes()) }
    }

    /// A field with a value of its own.
    pub fn of(name: &'static str, value: impl Into<Vec<u8>>) -> Field<'a> {
        Field { name, value: Cow::Owned(value.into()) }
    }

    /// The same, for longer than its value is held.
    pub fn to_static(&self) -> Field<'static> {
        Field::of(self.name, self.value.to_vec())
    }
}
