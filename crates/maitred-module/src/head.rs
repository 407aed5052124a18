//! The head of a response on its way to the client.

use maitred_sys::module::abi;
use maitred_sys::module::guest::SeenHead;

/// The head of a final response. What frames it, and what is about one connection, is not among its fields, and cannot be
/// changed.
#[derive(Debug)]
pub struct Head<'a>(SeenHead<'a>);

impl<'a> Head<'a> {
    pub(crate) fn of(seen: SeenHead<'a>) -> Head<'a> {
        Head(seen)
    }

    /// The status, 200 to 599.
    pub fn status(&self) -> u16 {
        self.0.status()
    }

    /// The value of the first field of this name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.0.field(name.as_bytes())
    }

    /// Names and values, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.0.field_count()).filter_map(|index| self.0.field_at(index))
    }

    /// Puts a field in place of all of its name. False if it is none that can be changed, or breaks a rule of HTTP.
    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) -> bool {
        self.0.edit(abi::SET, name.as_bytes(), value.as_ref())
    }

    /// Puts a field besides those of its name. False as for [`Head::set`].
    pub fn add(&mut self, name: &str, value: impl AsRef<[u8]>) -> bool {
        self.0.edit(abi::ADD, name.as_bytes(), value.as_ref())
    }

    /// Takes out all fields of this name. False as for [`Head::set`].
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.edit(abi::REMOVE, name.as_bytes(), b"")
    }
}
