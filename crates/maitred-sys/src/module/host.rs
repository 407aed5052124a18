//! The server's side of modules.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use super::abi::{self, Client, Field, Reason, Response, Text, Ticket};
use super::calls::{self, Inside};

/// Bytes of the reason that a module may give for not beginning.
const REASON_BYTES_MAX: usize = 1024;

/// What a module can ask about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The method.
    Method,
    /// The target.
    Target,
    /// The decoded path.
    Path,
    /// The query.
    Query,
    /// Host and port.
    Authority,
    /// The body.
    Body,
}

impl Part {
    /// In the order of the header's numbers.
    const ALL: [Part; 6] = [Part::Method, Part::Target, Part::Path, Part::Query, Part::Authority, Part::Body];
}

/// A request, as the server shows it to a module.
///
/// What these functions have shown stays as it is, and where it is, until the call of the module returns, whatever else of them
/// is called: the header promises it, and modules keep such texts over [`RequestCalls::set_field`] and [`RequestCalls::answer`].
pub trait RequestCalls {
    /// A part of it.
    fn part(&self, part: Part) -> &[u8];
    /// The first field of this name.
    fn field(&self, name: &[u8]) -> Option<&[u8]>;
    /// How many fields it has.
    fn field_count(&self) -> usize;
    /// The field at this index.
    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])>;
    /// Where it comes from.
    fn client(&self) -> Client;
    /// Takes an answer. False if it cannot be one.
    fn answer(&mut self, response: &Response<'_>) -> bool;
    /// The answer comes later, for this ticket. `None` where that cannot be.
    fn later(&mut self) -> Option<Ticket>;
    /// Gives a field to what the request goes on to. False if it may not be given.
    fn set_field(&mut self, name: &[u8], value: &[u8]) -> bool;
}

/// How a field is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// The field takes the place of those of its name.
    Set,
    /// The field comes besides those of its name.
    Add,
    /// All of its name go.
    Remove,
}

/// The head of a response, as the server shows it to a module. What was shown of it is good until the next [`HeadCalls::edit`].
pub trait HeadCalls {
    /// The status of the response.
    fn status(&self) -> u16;
    /// The first field of this name.
    fn field(&self, name: &[u8]) -> Option<&[u8]>;
    /// How many fields it has.
    fn field_count(&self) -> usize;
    /// The field at this index.
    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])>;
    /// Changes it. False if that cannot be.
    fn edit(&mut self, how: Edit, name: &[u8], value: &[u8]) -> bool;
}

/// A call that a helper thread makes for a module.
#[derive(Debug)]
pub struct Task {
    call: abi::Task,
    data: *mut c_void,
    module: Option<u16>,
}

// SAFETY: the header says that any thread may call it.
unsafe impl Send for Task {}

impl Task {
    /// Makes the call.
    pub fn call(self) {
        let _inside = self.module.map(Inside::enter);
        // SAFETY: the module has given both for this, and it is called once.
        unsafe { (self.call)(self.data) }
    }
}

/// What a module can do in any thread.
pub trait ServerCalls: Sync {
    /// Answers a request, or has it pass (`None`). False if it has ended meanwhile, or that cannot be an answer.
    fn complete(&self, ticket: Ticket, response: Option<&Response<'_>>) -> bool;
    /// Has a helper thread make this call. False if too many wait.
    fn run(&self, task: Task) -> bool;
    /// Writes to the error log. `level` is 0 for an error, 1 for a warning, 2 for information, anything else for debugging.
    fn log(&self, level: u32, text: &[u8]);
}

/// What the functions of [`SERVER`] call.
static CALLS: OnceLock<&'static dyn ServerCalls> = OnceLock::new();

/// What modules can do in any thread, from now on. Only the first call counts.
pub fn serve(calls: &'static dyn ServerCalls) {
    let _ = CALLS.set(calls);
}

/// What a module has said to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The module has answered.
    Answered,
    /// The route goes on.
    Pass,
    /// The module answers later.
    Later,
    /// The module could not answer.
    Failed,
}

/// A module with its configuration.
pub struct Module {
    instance: abi::Instance,
    /// By which calls and crashes name it.
    number: u16,
    /// Never unloaded: threads of its own may be in it.
    _library: std::mem::ManuallyDrop<Library>,
}

impl fmt::Debug for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Module").field("number", &self.number).finish_non_exhaustive()
    }
}

// SAFETY: the header says that several threads call its functions at the same time.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a library and begins a module with this configuration, which is JSON.
    ///
    /// # Errors
    /// What is wrong with it, in words: it cannot be loaded, it is no module, it is one of another version, or what it says
    /// itself.
    pub fn open(path: &Path, config: &str, number: u16) -> Result<Module, String> {
        if cfg!(target_feature = "crt-static") {
            return Err(
                "this executable is linked statically, and such a one loads no libraries: build one with \
                        `cargo build --release`"
                    .to_owned(),
            );
        }
        let _inside = Inside::enter(number);
        // SAFETY: that the library is one to be trusted is what the operator says by naming it.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| reason_of(&error))?;
        type Entry = unsafe extern "C" fn() -> *const abi::Module;
        // SAFETY: a module has this function, with this type.
        let entry: Result<Symbol<Entry>, _> = unsafe { library.get(abi::ENTRY.as_bytes()) };
        let entry = entry
            .map_err(|_| format!("it is no module: it has no function {} (maitred_module.h)", abi::ENTRY))?;
        // SAFETY: as above; what it gives back stays as it is.
        let module =
            unsafe { entry().as_ref() }.ok_or("it describes nothing: its function gives back NULL")?;
        if module.version != abi::VERSION {
            let (its, own) = (module.version, abi::VERSION);
            return Err(format!(
                "it is made for version {its} of maitred_module.h, and this server has version {own}"
            ));
        }
        let init = module.init.filter(|_| module.bytes as usize >= size_of::<abi::Module>());
        let init = init.ok_or("its description is incomplete: there is no `init`")?;
        let (mut instance, mut room) = (abi::Instance::EMPTY, [0; REASON_BYTES_MAX]);
        let mut reason = Reason::over(&mut room);
        // SAFETY: all of these live through the call, and have the types of the header.
        let failed = unsafe { init(&SERVER, Text::new(config.as_bytes()), &mut instance, &mut reason) };
        let bytes = reason.bytes();
        if failed != 0 {
            return Err(format!("its `init` refuses: {}", text_of(&room, bytes)));
        }
        if instance.on_request.is_none() && instance.on_response.is_none() {
            return Err("its `init` names neither `on_request` nor `on_response`".to_owned());
        }
        Ok(Module { instance, number, _library: std::mem::ManuallyDrop::new(library) })
    }

    /// Calls what it wants to be called once the process is confined.
    ///
    /// # Errors
    /// What it says is wrong.
    pub fn start(&self) -> Result<(), String> {
        let Some(start) = self.instance.start else { return Ok(()) };
        let mut room = [0; REASON_BYTES_MAX];
        let mut reason = Reason::over(&mut room);
        let inside = Inside::enter(self.number);
        // SAFETY: it is called as the header says.
        let failed = unsafe { start(self.instance.data, &mut reason) };
        drop(inside);
        let bytes = reason.bytes();
        if failed == 0 { Ok(()) } else { Err(format!("its `start` refuses: {}", text_of(&room, bytes))) }
    }

    /// Whether it wants the bodies of requests.
    pub fn reads_body(&self) -> bool {
        self.instance.flags & abi::READS_BODY != 0
    }

    /// Whether its answers may come later.
    pub fn may_answer_later(&self) -> bool {
        self.instance.flags & abi::MAY_ANSWER_LATER != 0
    }

    /// Whether it sees requests.
    pub fn sees_requests(&self) -> bool {
        self.instance.on_request.is_some()
    }

    /// Whether it sees responses.
    pub fn sees_responses(&self) -> bool {
        self.instance.on_response.is_some()
    }

    /// Shows it a request.
    #[inline]
    pub fn on_request(&self, calls: &mut dyn RequestCalls) -> Outcome {
        let Some(on_request) = self.instance.on_request else { return Outcome::Pass };
        let mut crossing = RequestCrossing { calls };
        let inside = Inside::enter(self.number);
        // SAFETY: it is called as the header says; the request is at this address until it returns.
        let said = unsafe { on_request(self.instance.data, (&raw mut crossing).cast()) };
        drop(inside);
        match said {
            abi::ANSWERED => Outcome::Answered,
            abi::PASS => Outcome::Pass,
            abi::LATER => Outcome::Later,
            _ => Outcome::Failed,
        }
    }

    /// Shows it the head of a response.
    pub fn on_response(&self, request: &mut dyn RequestCalls, head: &mut dyn HeadCalls) {
        let Some(on_response) = self.instance.on_response else { return };
        let (mut request, mut head) = (RequestCrossing { calls: request }, HeadCrossing { calls: head });
        let _inside = Inside::enter(self.number);
        // SAFETY: as for `on_request`.
        unsafe { on_response(self.instance.data, (&raw mut request).cast(), (&raw mut head).cast()) }
    }
}

/// What dlopen(3) says, without the name of the function.
fn reason_of(error: &libloading::Error) -> String {
    let said = std::error::Error::source(error).map(ToString::to_string);
    said.unwrap_or_else(|| error.to_string())
}

fn text_of(room: &[u8], bytes: usize) -> String {
    let said = String::from_utf8_lossy(room.get(..bytes).unwrap_or_default());
    if said.is_empty() { "it does not say why".to_owned() } else { said.into_owned() }
}

/// What is at the address that a module gets for a request.
struct RequestCrossing<'a> {
    calls: &'a mut dyn RequestCalls,
}

/// What is at the address that a module gets for the head of a response.
struct HeadCrossing<'a> {
    calls: &'a mut dyn HeadCalls,
}

/// The functions that modules call.
pub static SERVER: abi::Server = abi::Server {
    bytes: size_of::<abi::Server>() as u32,
    version: abi::VERSION,
    part,
    field,
    field_count,
    field_at,
    client,
    answer,
    later,
    set_request_field,
    complete,
    complete_pass,
    run,
    log,
    status,
    head_field,
    head_field_count,
    head_field_at,
    edit,
};

/// # Safety
/// The address is one that [`Module`] has given to a call that has not returned, or null.
unsafe fn request<'a>(at: *const abi::Request) -> Option<&'a RequestCrossing<'a>> {
    // SAFETY: says the caller.
    unsafe { at.cast::<RequestCrossing<'a>>().as_ref() }
}

/// # Safety
/// As for [`request`]; and no part of it is being changed.
unsafe fn request_mut<'a>(at: *mut abi::Request) -> Option<&'a mut RequestCrossing<'a>> {
    // SAFETY: says the caller.
    unsafe { at.cast::<RequestCrossing<'a>>().as_mut() }
}

/// # Safety
/// As for [`request`].
unsafe fn head<'a>(at: *const abi::Head) -> Option<&'a HeadCrossing<'a>> {
    // SAFETY: says the caller.
    unsafe { at.cast::<HeadCrossing<'a>>().as_ref() }
}

/// Writes what was found to where the module wants it.
///
/// # Safety
/// `to` is null, or a place for a `T`.
unsafe fn put<T>(found: Option<T>, to: *mut T) -> c_int {
    match found {
        Some(found) if !to.is_null() => {
            // SAFETY: says the caller.
            unsafe { to.write(found) };
            1
        }
        _ => 0,
    }
}

fn pair<'a>((name, value): (&'a [u8], &'a [u8])) -> Field<'a> {
    Field { name: Text::new(name), value: Text::new(value) }
}

// SAFETY: modules call it as the header says.
unsafe extern "C" fn part(at: *const abi::Request, which: u32) -> Text<'static> {
    // SAFETY: the header says so of all requests that are given to these functions.
    let part = Part::ALL.get(which as usize).zip(unsafe { request(at) });
    part.map(|(part, request)| Text::new(request.calls.part(*part))).unwrap_or_default()
}

unsafe extern "C" fn field(at: *const abi::Request, name: Text<'_>, value: *mut Text<'static>) -> c_int {
    // SAFETY: as above.
    let found = unsafe { request(at) }.and_then(|request| request.calls.field(name.get()));
    // SAFETY: the header says so of all places that are given to these functions.
    unsafe { put(found.map(Text::new), value) }
}

unsafe extern "C" fn field_count(at: *const abi::Request) -> usize {
    // SAFETY: as above.
    unsafe { request(at) }.map_or(0, |request| request.calls.field_count())
}

unsafe extern "C" fn field_at(at: *const abi::Request, index: usize, field: *mut Field<'static>) -> c_int {
    // SAFETY: as above.
    let found = unsafe { request(at) }.and_then(|request| request.calls.field_at(index));
    // SAFETY: as above.
    unsafe { put(found.map(pair), field) }
}

unsafe extern "C" fn client(at: *const abi::Request, to: *mut Client) -> c_int {
    // SAFETY: as above.
    let found = unsafe { request(at) }.map(|request| request.calls.client());
    // SAFETY: as above.
    unsafe { put(found, to) }
}

unsafe extern "C" fn answer(at: *mut abi::Request, response: *const Response<'_>) -> c_int {
    // SAFETY: as above; and as for a place, for a response.
    let given = unsafe { request_mut(at).zip(response.as_ref()) };
    given.is_some_and(|(request, response)| request.calls.answer(response)).into()
}

unsafe extern "C" fn later(at: *mut abi::Request, ticket: *mut Ticket) -> c_int {
    if ticket.is_null() {
        return 0;
    }
    // SAFETY: as above.
    let given = unsafe { request_mut(at) }.and_then(|request| request.calls.later());
    // SAFETY: as above.
    unsafe { put(given, ticket) }
}

unsafe extern "C" fn set_request_field(at: *mut abi::Request, name: Text<'_>, value: Text<'_>) -> c_int {
    // SAFETY: as above.
    let request = unsafe { request_mut(at) };
    request.is_some_and(|request| request.calls.set_field(name.get(), value.get())).into()
}

unsafe extern "C" fn complete(ticket: *const Ticket, response: *const Response<'_>) -> c_int {
    // SAFETY: as above.
    let given = unsafe { ticket.as_ref().zip(response.as_ref()) };
    let done =
        given.zip(CALLS.get()).map(|((ticket, response), server)| server.complete(*ticket, Some(response)));
    done.unwrap_or(false).into()
}

unsafe extern "C" fn complete_pass(ticket: *const Ticket) -> c_int {
    // SAFETY: as above.
    let given = unsafe { ticket.as_ref() }.zip(CALLS.get());
    given.is_some_and(|(ticket, server)| server.complete(*ticket, None)).into()
}

// SAFETY: modules call it as the header says.
unsafe extern "C" fn run(task: Option<abi::Task>, data: *mut c_void) -> c_int {
    let task = task.map(|call| Task { call, data, module: calls::current() });
    task.zip(CALLS.get()).is_some_and(|(task, server)| server.run(task)).into()
}

// SAFETY: modules call it as the header says.
unsafe extern "C" fn log(level: u32, text: Text<'_>) {
    match CALLS.get() {
        Some(server) => server.log(level, text.get()),
        // In `init`, there may be no server yet. If it cannot be written, there is nothing to say it to.
        None if level < abi::DEBUG => {
            let _ = writeln!(std::io::stderr(), "module: {}", String::from_utf8_lossy(text.get()));
        }
        None => {}
    }
}

// SAFETY: modules call it as the header says.
unsafe extern "C" fn status(at: *const abi::Head) -> u16 {
    // SAFETY: as above.
    unsafe { head(at) }.map_or(0, |head| head.calls.status())
}

unsafe extern "C" fn head_field(at: *const abi::Head, name: Text<'_>, value: *mut Text<'static>) -> c_int {
    // SAFETY: as above.
    let found = unsafe { head(at) }.and_then(|head| head.calls.field(name.get()));
    // SAFETY: as above.
    unsafe { put(found.map(Text::new), value) }
}

unsafe extern "C" fn head_field_count(at: *const abi::Head) -> usize {
    // SAFETY: as above.
    unsafe { head(at) }.map_or(0, |head| head.calls.field_count())
}

unsafe extern "C" fn head_field_at(at: *const abi::Head, index: usize, field: *mut Field<'static>) -> c_int {
    // SAFETY: as above.
    let found = unsafe { head(at) }.and_then(|head| head.calls.field_at(index));
    // SAFETY: as above.
    unsafe { put(found.map(pair), field) }
}

unsafe extern "C" fn edit(at: *mut abi::Head, how: u32, name: Text<'_>, value: Text<'_>) -> c_int {
    let how = match how {
        abi::SET => Edit::Set,
        abi::ADD => Edit::Add,
        abi::REMOVE => Edit::Remove,
        _ => return 0,
    };
    // SAFETY: as above; no part of it is being changed.
    let head = unsafe { at.cast::<HeadCrossing<'_>>().as_mut() };
    head.is_some_and(|head| head.calls.edit(how, name.get(), value.get())).into()
}
