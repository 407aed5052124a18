//! The types of `maitred_module.h`, which documents them. A test holds the sizes and offsets against that file.

// The types are documented there.
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;

pub mod layout;

/// The version of the interface.
pub const VERSION: u32 = 1;
/// The function that a module exports.
pub const ENTRY: &str = "maitred_module_v1";

/// `maitred_instance.flags`: the body of the request is waited for.
pub const READS_BODY: u32 = 1;
/// The answer may come later.
pub const MAY_ANSWER_LATER: u32 = 2;

pub const METHOD: u32 = 0;
pub const TARGET: u32 = 1;
pub const PATH: u32 = 2;
pub const QUERY: u32 = 3;
pub const AUTHORITY: u32 = 4;
pub const BODY: u32 = 5;

pub const SET: u32 = 0;
pub const ADD: u32 = 1;
pub const REMOVE: u32 = 2;

pub const ERROR: u32 = 0;
pub const WARN: u32 = 1;
pub const INFO: u32 = 2;
pub const DEBUG: u32 = 3;

pub const ANSWERED: u32 = 0;
pub const PASS: u32 = 1;
pub const LATER: u32 = 2;
pub const FAILED: u32 = 3;

/// Borrowed bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Text<'a> {
    at: *const c_char,
    bytes: usize,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: it is a shared reference to bytes, in another form.
unsafe impl Send for Text<'_> {}
// SAFETY: as above.
unsafe impl Sync for Text<'_> {}

impl<'a> Text<'a> {
    /// A text of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Text<'a> {
        Text { at: bytes.as_ptr().cast(), bytes: bytes.len(), borrowed: PhantomData }
    }

    /// The bytes: none where it points nowhere, or says more than there can be.
    pub fn get(self) -> &'a [u8] {
        if self.at.is_null() || self.bytes > isize::MAX as usize {
            return &[];
        }
        // SAFETY: what made it has borrowed these bytes for `'a`: `new` by its type, a module in C by what the header says.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.bytes) }
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Text::new(&[])
    }
}

/// A field: borrowed name and value.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Field<'a> {
    /// The name of the field, a token.
    pub name: Text<'a>,
    /// The value of the field: no CR, LF or NUL.
    pub value: Text<'a>,
}

impl<'a> Field<'a> {
    /// A field.
    pub const fn new(name: &'a str, value: &'a [u8]) -> Field<'a> {
        Field { name: Text::new(name.as_bytes()), value: Text::new(value) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Client {
    pub address: [u8; 16],
    pub family: u8,
    pub secure: u8,
    pub http: u8,
    pub unused: u8,
    pub port: u16,
}

/// A response, borrowed. `Content-Length`, `Date` and `Connection` are added by the server.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Response<'a> {
    /// 200 to 599.
    pub status: u16,
    fields: *const Field<'a>,
    field_count: usize,
    /// The content.
    pub content: Text<'a>,
}

/// The fields of [`Response::text`].
static OF_TEXT: [Field<'static>; 1] = [Field::new("Content-Type", b"text/plain; charset=utf-8")];
/// The fields of [`Response::json`].
static OF_JSON: [Field<'static>; 1] = [Field::new("Content-Type", b"application/json")];

impl<'a> Response<'a> {
    /// A response with status 200 that is text in UTF-8.
    pub fn text(content: &'a [u8]) -> Response<'a> {
        Response::new(200, &OF_TEXT, content)
    }

    /// A response with status 200 that is JSON.
    pub fn json(content: &'a [u8]) -> Response<'a> {
        Response::new(200, &OF_JSON, content)
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Response<'a> {
        Response { status, ..self }
    }

    /// A response.
    pub fn new(status: u16, fields: &'a [Field<'a>], content: &'a [u8]) -> Response<'a> {
        Response { status, fields: fields.as_ptr(), field_count: fields.len(), content: Text::new(content) }
    }

    /// The fields of the response.
    pub fn fields(&self) -> &'a [Field<'a>] {
        if self.fields.is_null() || self.field_count > isize::MAX as usize / size_of::<Field<'_>>() {
            return &[];
        }
        // SAFETY: what made it has borrowed these fields for `'a`: `new` by its type, a module in C by what the header says.
        unsafe { std::slice::from_raw_parts(self.fields, self.field_count) }
    }
}

// SAFETY: it is shared references, in another form.
unsafe impl Send for Response<'_> {}
// SAFETY: as above.
unsafe impl Sync for Response<'_> {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Ticket {
    pub words: [u64; 3],
}

/// A request as a module sees it: an address.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    _opaque: [u8; 0],
}

/// The head of a response as a module sees it: an address.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    _opaque: [u8; 0],
}

// SAFETY: a caller keeps to what the header says of it.
pub type Task = unsafe extern "C" fn(*mut c_void);

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Server {
    pub bytes: u32,
    pub version: u32,
    // SAFETY: a caller keeps to what the header says of these: about a request.
    pub part: unsafe extern "C" fn(*const Request, u32) -> Text<'static>,
    pub field: unsafe extern "C" fn(*const Request, Text<'_>, *mut Text<'static>) -> c_int,
    pub field_count: unsafe extern "C" fn(*const Request) -> usize,
    pub field_at: unsafe extern "C" fn(*const Request, usize, *mut Field<'static>) -> c_int,
    pub client: unsafe extern "C" fn(*const Request, *mut Client) -> c_int,
    // SAFETY: a caller keeps to what the header says of these: in `on_request`.
    pub answer: unsafe extern "C" fn(*mut Request, *const Response<'_>) -> c_int,
    pub later: unsafe extern "C" fn(*mut Request, *mut Ticket) -> c_int,
    pub set_request_field: unsafe extern "C" fn(*mut Request, Text<'_>, Text<'_>) -> c_int,
    // SAFETY: a caller keeps to what the header says of these: at any time.
    pub complete: unsafe extern "C" fn(*const Ticket, *const Response<'_>) -> c_int,
    pub complete_pass: unsafe extern "C" fn(*const Ticket) -> c_int,
    pub run: unsafe extern "C" fn(Option<Task>, *mut c_void) -> c_int,
    pub log: unsafe extern "C" fn(u32, Text<'_>),
    // SAFETY: a caller keeps to what the header says of these: about a head.
    pub status: unsafe extern "C" fn(*const Head) -> u16,
    pub head_field: unsafe extern "C" fn(*const Head, Text<'_>, *mut Text<'static>) -> c_int,
    pub head_field_count: unsafe extern "C" fn(*const Head) -> usize,
    pub head_field_at: unsafe extern "C" fn(*const Head, usize, *mut Field<'static>) -> c_int,
    pub edit: unsafe extern "C" fn(*mut Head, u32, Text<'_>, Text<'_>) -> c_int,
}

#[derive(Debug)]
#[repr(C)]
pub struct Reason<'a> {
    at: *mut c_char,
    room: usize,
    bytes: usize,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Reason<'a> {
    /// Room for a text.
    pub fn over(room: &'a mut [u8]) -> Reason<'a> {
        Reason { at: room.as_mut_ptr().cast(), room: room.len(), bytes: 0, borrowed: PhantomData }
    }

    /// Writes a text, as much of it as there is room for.
    pub fn write(&mut self, text: &[u8]) {
        let bytes = text.len().min(self.room);
        if self.at.is_null() {
            return;
        }
        // SAFETY: there is room for as many bytes, in memory of the server's that the text is not in.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.at, bytes) };
        self.bytes = bytes;
    }

    /// How many bytes were written.
    pub fn bytes(&self) -> usize {
        self.bytes.min(self.room)
    }
}

// SAFETY: a caller keeps to what the header says of these.
pub type OnRequest = unsafe extern "C" fn(*mut c_void, *mut Request) -> u32;
pub type OnResponse = unsafe extern "C" fn(*mut c_void, *const Request, *mut Head);
pub type Start = unsafe extern "C" fn(*mut c_void, *mut Reason<'_>) -> c_int;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Instance {
    pub bytes: u32,
    pub flags: u32,
    pub data: *mut c_void,
    pub on_request: Option<OnRequest>,
    pub on_response: Option<OnResponse>,
    pub start: Option<Start>,
}

impl Instance {
    /// An instance that nothing is known of.
    pub const EMPTY: Instance = Instance {
        bytes: size_of::<Instance>() as u32,
        flags: 0,
        data: std::ptr::null_mut(),
        on_request: None,
        on_response: None,
        start: None,
    };
}

// SAFETY: a caller keeps to what the header says of it.
pub type Init = unsafe extern "C" fn(*const Server, Text<'_>, *mut Instance, *mut Reason<'_>) -> c_int;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Module {
    pub bytes: u32,
    pub version: u32,
    pub init: Option<Init>,
}
