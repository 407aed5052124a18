//! The side of a module in Rust: what `maitred-module` is made of. Panics of a module end here.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::abi::{self, Client, Field, Head, Reason, Response, Server, Text, Ticket};

/// What the server offers, once a module has begun.
static OFFERED: OnceLock<&'static Server> = OnceLock::new();

/// A module as the functions of this file call it.
pub trait Guest: Send + Sync + 'static {
    /// `maitred_instance.flags`
    fn flags(&self) -> u32;
    /// Whether it sees requests, and responses.
    fn sees(&self) -> (bool, bool);
    /// Once, when the process is confined.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn start(&self) -> Result<(), String>;
    /// A request. Gives back one of the numbers of the header.
    fn on_request(&self, request: SeenRequest<'_>) -> u32;
    /// The head of a response.
    fn on_response(&self, request: SeenRequest<'_>, head: SeenHead<'_>);
}

/// A request during a call.
pub struct SeenRequest<'a> {
    at: *mut abi::Request,
    server: &'static Server,
    during: PhantomData<&'a ()>,
}

/// The head of a response during a call.
pub struct SeenHead<'a> {
    at: *mut Head,
    server: &'static Server,
    during: PhantomData<&'a ()>,
}

impl fmt::Debug for SeenRequest<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SeenRequest")
    }
}

impl fmt::Debug for SeenHead<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SeenHead")
    }
}

// What the server shows is good until the call returns, which `'a` does not go beyond: hence the shorter lifetimes below.
impl<'a> SeenRequest<'a> {
    /// A part, by its number in the header.
    pub fn part(&self, which: u32) -> &'a [u8] {
        // SAFETY: the address is that of a call that lasts.
        unsafe { (self.server.part)(self.at, which) }.get()
    }

    /// The first field of this name.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut value = Text::default();
        // SAFETY: as above; the place lives through the call.
        let found = unsafe { (self.server.field)(self.at, Text::new(name), &mut value) };
        (found != 0).then(|| value.get())
    }

    /// How many fields there are.
    pub fn field_count(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.server.field_count)(self.at) }
    }

    /// The field at this index.
    pub fn field_at(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let mut field = Field::default();
        // SAFETY: as above.
        let found = unsafe { (self.server.field_at)(self.at, index, &mut field) };
        (found != 0).then(|| (field.name.get(), field.value.get()))
    }

    /// Where it comes from.
    pub fn client(&self) -> Client {
        let mut client = Client::default();
        // SAFETY: as above. Where it says nothing, it writes nothing.
        unsafe { (self.server.client)(self.at, &mut client) };
        client
    }

    /// Answers.
    pub fn answer(&mut self, response: &Response<'_>) -> bool {
        // SAFETY: as above.
        unsafe { (self.server.answer)(self.at, response) != 0 }
    }

    /// Answers later.
    pub fn later(&mut self) -> Option<Ticket> {
        let mut ticket = Ticket::default();
        // SAFETY: as above.
        let given = unsafe { (self.server.later)(self.at, &mut ticket) };
        (given != 0).then_some(ticket)
    }

    /// Gives a field to what the request goes on to.
    pub fn set_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        // SAFETY: as above.
        unsafe { (self.server.set_request_field)(self.at, Text::new(name), Text::new(value)) != 0 }
    }
}

impl<'a> SeenHead<'a> {
    /// The status.
    pub fn status(&self) -> u16 {
        // SAFETY: the address is that of a call that lasts.
        unsafe { (self.server.status)(self.at) }
    }

    /// The first field of this name.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut value = Text::default();
        // SAFETY: as above; the place lives through the call.
        let found = unsafe { (self.server.head_field)(self.at, Text::new(name), &mut value) };
        (found != 0).then(|| value.get())
    }

    /// How many fields there are.
    pub fn field_count(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.server.head_field_count)(self.at) }
    }

    /// The field at this index.
    pub fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let mut field = Field::default();
        // SAFETY: as above.
        let found = unsafe { (self.server.head_field_at)(self.at, index, &mut field) };
        (found != 0).then(|| (field.name.get(), field.value.get()))
    }

    /// Changes a field, as a number of the header says.
    pub fn edit(&mut self, how: u32, name: &[u8], value: &[u8]) -> bool {
        // SAFETY: as above. Nothing that was shown of it is borrowed any more.
        unsafe { (self.server.edit)(self.at, how, Text::new(name), Text::new(value)) != 0 }
    }
}

/// Answers the request of a ticket, or has it pass (`None`).
pub fn complete(ticket: &Ticket, response: Option<&Response<'_>>) -> bool {
    let Some(server) = OFFERED.get() else { return false };
    // SAFETY: both live through the call.
    unsafe {
        match response {
            Some(response) => (server.complete)(ticket, response) != 0,
            None => (server.complete_pass)(ticket) != 0,
        }
    }
}

/// Has a helper thread call a function. Gives it back if too many wait.
///
/// # Errors
/// The function.
pub fn run(task: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
    let Some(server) = OFFERED.get() else { return Err(task) };
    let data = Box::into_raw(Box::new(task));
    // SAFETY: the function gets what it expects, and gets it once.
    if unsafe { (server.run)(Some(call_task), data.cast()) } != 0 {
        return Ok(());
    }
    // SAFETY: it comes from `Box::into_raw`, and the server has not taken it.
    Err(*unsafe { Box::from_raw(data) })
}

unsafe extern "C" fn call_task(data: *mut c_void) {
    // SAFETY: `run` has made it of such a box, for one call.
    let task = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
        log_panic("a task", &*panic);
    }
}

/// Writes to the server's error log.
pub fn log(level: u32, text: &[u8]) {
    if let Some(server) = OFFERED.get() {
        // SAFETY: the text lives through the call.
        unsafe { (server.log)(level, Text::new(text)) }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn log_panic(place: &str, panic: &(dyn Any + Send)) {
    log(abi::ERROR, format!("panic in {place} of a module: {}", text_of(panic)).as_bytes());
}

/// The `init` of a module that `begin` makes of its configuration: what [`module!`](crate::module!) exports calls this.
///
/// # Safety
/// As `maitred_module.h` says of `init`.
pub unsafe fn init<G: Guest>(
    begin: fn(&str) -> Result<G, String>,
    server: *const Server,
    config: Text<'_>,
    instance: *mut abi::Instance,
    reason: *mut Reason<'_>,
) -> c_int {
    // SAFETY: says the caller; the server is there for as long as the process lives.
    let (server, instance, reason) = unsafe { (server.as_ref(), instance.as_mut(), reason.as_mut()) };
    let (Some(server), Some(instance), Some(reason)) = (server, instance, reason) else { return 1 };
    if (server.bytes as usize) < size_of::<Server>() || server.version != abi::VERSION {
        reason.write(b"the server is older than the module");
        return 1;
    }
    let server = OFFERED.get_or_init(|| server);
    let begun = catch_unwind(|| {
        let config = std::str::from_utf8(config.get()).map_err(|error| error.to_string())?;
        begin(config)
    });
    let guest = match begun {
        Ok(Ok(guest)) => guest,
        Ok(Err(why)) => {
            reason.write(why.as_bytes());
            return 1;
        }
        Err(panic) => {
            reason.write(format!("it panics: {}", text_of(&*panic)).as_bytes());
            return 1;
        }
    };
    let (requests, responses) = guest.sees();
    instance.flags = guest.flags();
    instance.on_request = requests.then_some(on_request::<G> as abi::OnRequest);
    instance.on_response = responses.then_some(on_response::<G> as abi::OnResponse);
    instance.start = Some(start::<G>);
    // For as long as the process lives: nothing says when the last call has returned.
    instance.data = Box::into_raw(Box::new(Begun { guest, server })).cast();
    0
}

/// A module that has begun.
struct Begun<G> {
    guest: G,
    server: &'static Server,
}

// SAFETY: the server calls it as the header says.
unsafe extern "C" fn start<G: Guest>(data: *mut c_void, reason: *mut Reason<'_>) -> c_int {
    // SAFETY: `init` has made it.
    let begun = unsafe { &*data.cast::<Begun<G>>() };
    let said = catch_unwind(AssertUnwindSafe(|| begun.guest.start()));
    let why = match said {
        Ok(Ok(())) => return 0,
        Ok(Err(why)) => why,
        Err(panic) => format!("it panics: {}", text_of(&*panic)),
    };
    // SAFETY: the server gives room for it.
    if let Some(reason) = unsafe { reason.as_mut() } {
        reason.write(why.as_bytes());
    }
    1
}

// SAFETY: the server calls it as the header says.
unsafe extern "C" fn on_request<G: Guest>(data: *mut c_void, request: *mut abi::Request) -> u32 {
    // SAFETY: `init` has made it.
    let begun = unsafe { &*data.cast::<Begun<G>>() };
    let seen = SeenRequest { at: request, server: begun.server, during: PhantomData };
    catch_unwind(AssertUnwindSafe(|| begun.guest.on_request(seen))).unwrap_or_else(|panic| {
        log_panic("`on_request`", &*panic);
        abi::FAILED
    })
}

// SAFETY: the server calls it as the header says.
unsafe extern "C" fn on_response<G: Guest>(data: *mut c_void, request: *const abi::Request, head: *mut Head) {
    // SAFETY: `init` has made it.
    let begun = unsafe { &*data.cast::<Begun<G>>() };
    let request = SeenRequest { at: request.cast_mut(), server: begun.server, during: PhantomData };
    let head = SeenHead { at: head, server: begun.server, during: PhantomData };
    let said = catch_unwind(AssertUnwindSafe(|| begun.guest.on_response(request, head)));
    if let Err(panic) = said {
        log_panic("`on_response`", &*panic);
    }
}

/// Exports a module: `module!(begin)`, with a function that makes a [`Guest`] of the configuration, as
/// JSON.
#[macro_export]
macro_rules! module {
    ($begin:expr) => {
        const _: () = {
            use $crate::module::abi;

            // SAFETY: it is called by a server alone, which keeps to maitred_module.h.
            unsafe extern "C" fn init(
                server: *const abi::Server,
                config: abi::Text<'_>,
                instance: *mut abi::Instance,
                reason: *mut abi::Reason<'_>,
            ) -> ::std::ffi::c_int {
                // SAFETY: as the server says.
                unsafe { $crate::module::guest::init($begin, server, config, instance, reason) }
            }

            static MODULE: abi::Module = abi::Module {
                bytes: size_of::<abi::Module>() as u32,
                version: abi::VERSION,
                init: Some(init),
            };

            // SAFETY: no other function of a library has this name.
            #[unsafe(no_mangle)]
            extern "C" fn maitred_module_v1() -> *const abi::Module {
                &MODULE
            }
        };
    };
}
