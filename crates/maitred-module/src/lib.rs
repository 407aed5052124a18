//! Modules of the web server Maitred: shared libraries that its worker process loads, and that answer requests in its event
//! loops.
//!
//! ```toml
//! [[site.route]]
//! path = "/hello"
//! module = { path = "/usr/local/lib/maitred/libhello.so", config = { greeting = "Hello" } }
//! ```
//!
//! ```
//! use maitred_module::{Config, Module, Response, module};
//!
//! #[derive(serde::Deserialize)]
//! struct Settings {
//!     greeting: String,
//! }
//!
//! module!(begin);
//!
//! fn begin(config: Config<'_>) -> Result<Module, String> {
//!     let settings: Settings = config.parse()?;
//!     let text = format!("{}, world\n", settings.greeting);
//!     Ok(Module::new().on_request(move |request| request.answer(&Response::text(text.as_bytes()))))
//! }
//! ```
//!
//! The crate of a module has `crate-type = ["cdylib"]`. What is borrowed from a request is good until the handler returns.
//! Handlers run in event loops: they must not wait. What takes longer is answered later ([`Request::later`]), by a helper thread
//! of the server ([`run`]) or a thread of the module's own. A panic of a handler gets the client 500, and a line in the error
//! log; anything else that would end a process ends the worker process.
//!
//! What worker processes share is in [`Counters`]; what is looked up and does not change, in a [`Table`]. The directory
//! `examples` has a module for each way to answer, in Rust and in C; `docs/modules.md` of the project is the guide.
//!
//! The interface below is in C: `include/maitred_module.h`.

mod config;
mod counters;
mod head;
mod later;
mod log;
mod request;
mod response;
mod table;

use std::fmt;

#[doc(hidden)]
pub use maitred_sys as sys;
use maitred_sys::module::abi;
pub use maitred_sys::module::abi::{Field, Response};
use maitred_sys::module::guest::{Guest, SeenHead, SeenRequest};

pub use self::config::Config;
pub use self::counters::Counters;
pub use self::head::Head;
pub use self::later::{Ticket, run};
pub use self::log::{debug, error, info, warn};
pub use self::request::{Client, Outcome, Request};
pub use self::response::OwnedResponse;
pub use self::table::Table;

type OnRequest = Box<dyn Fn(Request<'_>) -> Outcome + Send + Sync>;
type OnResponse = Box<dyn Fn(&Request<'_>, &mut Head<'_>) + Send + Sync>;
type OnStart = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What a module does. Several threads call its handlers at the same time.
#[derive(Default)]
pub struct Module {
    on_request: Option<OnRequest>,
    on_response: Option<OnResponse>,
    on_start: Option<OnStart>,
    flags: u32,
}

impl fmt::Debug for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Module").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl Module {
    /// A module that does nothing yet.
    pub fn new() -> Module {
        Module::default()
    }

    /// Requests go to this handler: for the route that names the module, or before what its route answers with.
    #[must_use]
    pub fn on_request(self, handler: impl Fn(Request<'_>) -> Outcome + Send + Sync + 'static) -> Module {
        Module { on_request: Some(Box::new(handler)), ..self }
    }

    /// The handler is called when the body of a request is whole ([`Request::body`]). Only where the module is what a route
    /// answers with: before other handlers no body is read.
    #[must_use]
    pub fn reads_body(self) -> Module {
        Module { flags: self.flags | abi::READS_BODY, ..self }
    }

    /// The handler may answer later.
    #[must_use]
    pub fn may_answer_later(self) -> Module {
        Module { flags: self.flags | abi::MAY_ANSWER_LATER, ..self }
    }

    /// Heads of final responses of the route go through this handler before they are sent.
    #[must_use]
    pub fn on_response(
        self,
        handler: impl Fn(&Request<'_>, &mut Head<'_>) + Send + Sync + 'static,
    ) -> Module {
        Module { on_response: Some(Box::new(handler)), ..self }
    }

    /// The function is called once, when the process is confined: threads are started here, and not before.
    #[must_use]
    pub fn on_start(self, start: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Module {
        Module { on_start: Some(Box::new(start)), ..self }
    }
}

#[doc(hidden)]
impl Guest for Module {
    fn flags(&self) -> u32 {
        self.flags
    }

    fn sees(&self) -> (bool, bool) {
        (self.on_request.is_some(), self.on_response.is_some())
    }

    fn start(&self) -> Result<(), String> {
        self.on_start.as_ref().map_or(Ok(()), |start| start())
    }

    fn on_request(&self, request: SeenRequest<'_>) -> u32 {
        match &self.on_request {
            Some(handler) => handler(Request::of(request)).number(),
            None => abi::PASS,
        }
    }

    fn on_response(&self, request: SeenRequest<'_>, head: SeenHead<'_>) {
        if let Some(handler) = &self.on_response {
            handler(&Request::of(request), &mut Head::of(head));
        }
    }
}

/// Makes a library a module: `module!(begin)`, with a function that takes a [`Config`] and gives back a [`Module`], or says
/// what is wrong with the configuration. The function is called before the process is confined to its own files: others can be
/// opened there.
#[macro_export]
macro_rules! module {
    ($begin:expr) => {
        $crate::sys::module!(|config| $begin($crate::Config::of(config)));
    };
}
