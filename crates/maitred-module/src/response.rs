//! Responses that own what they are made of: for answers that are made elsewhere than in a handler.

use maitred_sys::module::abi::{Field, Response};

/// A response that may be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedResponse {
    /// 200 to 599.
    pub status: u16,
    /// Names and values.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content.
    pub content: Vec<u8>,
}

impl OwnedResponse {
    /// A response with status 200 that is text in UTF-8.
    pub fn text(content: impl Into<String>) -> OwnedResponse {
        OwnedResponse::new(200, "text/plain; charset=utf-8", content.into().into_bytes())
    }

    /// A response with status 200 that is JSON.
    pub fn json(content: impl Into<Vec<u8>>) -> OwnedResponse {
        OwnedResponse::new(200, "application/json", content.into())
    }

    /// A response of this type.
    pub fn new(status: u16, content_type: &str, content: Vec<u8>) -> OwnedResponse {
        let fields = vec![("Content-Type".to_owned(), content_type.as_bytes().to_vec())];
        OwnedResponse { status, fields, content }
    }

    /// The same, borrowed, for this call.
    pub(crate) fn lend<R>(&self, take: impl FnOnce(&Response<'_>) -> R) -> R {
        let fields: Vec<Field<'_>> =
            self.fields.iter().map(|(name, value)| Field::new(name, value)).collect();
        take(&Response::new(self.status, &fields, &self.content))
    }
}
