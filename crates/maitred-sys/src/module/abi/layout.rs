//! What the compiler of this crate makes of the types and numbers of `maitred_module.h`, for the test that compares it with what
//! a compiler of C makes of them.

use std::mem::offset_of;

use super::*;

macro_rules! layout {
    (
        numbers { $( $name:ident = $value:expr ),* $(,)? }
        $( $c:ident = $rust:ty { $($field:ident),* } )*
    ) => {
        &[
            $(
                (concat!("sizeof(", stringify!($c), ")"), size_of::<$rust>()),
                $( (concat!("offsetof(", stringify!($c), ", ", stringify!($field), ")"), offset_of!($rust, $field)), )*
            )*
            $( (stringify!($name), $value as usize), )*
        ]
    };
}

/// Expressions of C, and the values that they have to have.
pub const EXPRESSIONS: &[(&str, usize)] = layout! {
    numbers {
        MAITRED_MODULE_VERSION = VERSION,
        MAITRED_METHOD = METHOD,
        MAITRED_TARGET = TARGET,
        MAITRED_PATH = PATH,
        MAITRED_QUERY = QUERY,
        MAITRED_AUTHORITY = AUTHORITY,
        MAITRED_BODY = BODY,
        MAITRED_ANSWERED = ANSWERED,
        MAITRED_PASS = PASS,
        MAITRED_LATER = LATER,
        MAITRED_FAILED = FAILED,
        MAITRED_SET = SET,
        MAITRED_ADD = ADD,
        MAITRED_REMOVE = REMOVE,
        MAITRED_ERROR = ERROR,
        MAITRED_WARN = WARN,
        MAITRED_INFO = INFO,
        MAITRED_DEBUG = DEBUG,
        MAITRED_READS_BODY = READS_BODY,
        MAITRED_MAY_ANSWER_LATER = MAY_ANSWER_LATER,
    }
    maitred_text = Text<'_> { at, bytes }
    maitred_field = Field<'_> { name, value }
    maitred_client = Client { address, family, secure, http, unused, port }
    maitred_response = Response<'_> { status, fields, field_count, content }
    maitred_ticket = Ticket { words }
    maitred_server = Server {
        bytes, version, part, field, field_count, field_at, client, answer, later, set_request_field, complete,
        complete_pass, run, log, status, head_field, head_field_count, head_field_at, edit
    }
    maitred_reason = Reason<'_> { at, room, bytes }
    maitred_instance = Instance { bytes, flags, data, on_request, on_response, start }
    maitred_module = Module { bytes, version, init }
};
