//! What modules see of a thread, and what they say to it.
//!
//! | file | what |
//! |---|---|
//! | this one | a request as a module sees it |
//! | [`answer`] | what it answers |
//! | [`altering`] | heads of responses on their way through modules |
//! | [`offer`] | what modules can do in any thread: answers that come later, helper threads, the error log |
//! | [`watch`] | event loops that a module does not give back |

pub(crate) mod altering;
pub(crate) mod answer;
pub(crate) mod offer;
pub(crate) mod watch;

use std::net::IpAddr;
use std::time::Duration;

use maitred_http::fields::{FieldLines, is_value};
use maitred_http::request::{Request, Version};
use maitred_sys::module::abi::{Client, Response, Ticket};
use maitred_sys::module::host::{Part, RequestCalls};
use rustix::time::{ClockId, clock_gettime};

pub(super) use self::answer::Answer;
use super::origin;
use maitred_policy::plan::ModuleCall;

/// A module that holds an event loop for longer is named in the log: as long as a turn may take.
pub(super) const HELD_MAX: Duration = Duration::from_millis(100);

/// A request as a module sees it.
pub(super) struct Seen<'a> {
    /// The request.
    pub(super) request: &'a Request<'a, 'a>,
    /// The path of the request, decoded.
    pub(super) path: &'a [u8],
    /// The body of the request.
    pub(super) body: &'a [u8],
    /// The target of the request, in its canonical form.
    pub(super) target: &'a str,
    /// Where it comes from.
    pub(super) client: &'a dyn Fn() -> origin::Client,
    /// What the module may do with it; `None` where it only sees it.
    pub(super) says: Option<Says<'a>>,
}

/// What a module says to a request.
pub(super) struct Says<'a> {
    /// How its route uses it.
    pub(super) call: &'a ModuleCall,
    /// The answer of the module.
    pub(super) answer: &'a mut Answer,
    /// Fields for what the request goes on to.
    pub(super) fields: &'a mut FieldLines,
    /// What an answer that comes later is given to; `None` where it has to come at once.
    pub(super) ticket: Option<Ticket>,
    /// The module has it.
    pub(super) taken: bool,
}

impl RequestCalls for Seen<'_> {
    fn part(&self, part: Part) -> &[u8] {
        match part {
            Part::Method => self.request.method_text.as_bytes(),
            Part::Target => self.target.as_bytes(),
            Part::Path => self.path,
            Part::Query => self.request.query.unwrap_or_default().as_bytes(),
            Part::Authority => self.request.authority.as_bytes(),
            Part::Body => self.body,
        }
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.request.fields.iter();
        fields.find(|field| field.name.as_bytes().eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    fn field_count(&self) -> usize {
        self.request.fields.len()
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.request.fields.get(index).map(|field| (field.name.as_bytes(), field.value))
    }

    fn client(&self) -> Client {
        let client = (self.client)();
        let mut seen =
            Client { secure: client.https.into(), http: version(self.request), ..Client::default() };
        if let Some(address) = client.remote.address {
            seen.port = address.port();
            match address.ip() {
                IpAddr::V4(ip) => {
                    seen.family = 4;
                    seen.address.iter_mut().zip(ip.octets()).for_each(|(to, byte)| *to = byte);
                }
                IpAddr::V6(ip) => (seen.family, seen.address) = (6, ip.octets()),
            }
        }
        seen
    }

    fn answer(&mut self, response: &Response<'_>) -> bool {
        self.says.as_mut().is_some_and(|says| says.answer.take(response))
    }

    fn later(&mut self) -> Option<Ticket> {
        let says = self.says.as_mut()?;
        says.taken |= says.ticket.is_some();
        says.ticket
    }

    fn set_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Some(says) = &mut self.says else { return false };
        let allowed = &says.call.request_fields;
        let Some(name) = allowed.iter().find(|own| own.as_bytes().eq_ignore_ascii_case(name)) else {
            return false;
        };
        let valid = is_value(value);
        if valid {
            says.fields.push(name.as_bytes(), value);
        }
        valid
    }
}

fn version(request: &Request<'_, '_>) -> u8 {
    match request.version {
        Version::Http10 => 10,
        Version::Http11 => 11,
        Version::Http2 => 20,
        Version::Http3 => 30,
    }
}

/// A clock that costs a hundredth of a request, and is right to some milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coarse(Duration);

impl Coarse {
    /// Now.
    #[inline]
    pub(super) fn now() -> Coarse {
        let time = clock_gettime(ClockId::MonotonicCoarse);
        let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32);
        Coarse(Duration::new(secs, nanos))
    }

    /// How long ago it was.
    #[inline]
    pub(super) fn elapsed(self) -> Duration {
        Coarse::now().0.saturating_sub(self.0)
    }
}
