//! The configuration: from text to meaning, once.
//!
//! [`load`] reads a file, [`read`] is its pure part. [`tables`] and [`limits`] declare every key, [`Config`] is what
//! comes out. An error names its place, and all errors of a file are reported at once.
//!
//! Before a key is read, one table is made of all files, with placeholders replaced (`import`, `expand`), and sites are filled up
//! from `[defaults]` (`inherit`). What a file needs of the machine (accounts, directories, certificates, secrets) is asked of a
//! [`Lookup`].

mod access;
pub(crate) mod acme;
mod arrivals;
mod balancing;
mod build;
mod cache;
mod client_limits;
mod coding;
mod compress;
mod conditions;
mod cors;
pub(crate) mod defaults;
mod directory;
mod discovery;
mod disk;
mod environment;
mod expand;
mod expanded;
mod expires;
mod external;
mod fastcgi;
mod files;
mod finding;
mod foreign;
mod forward_urls;
pub mod fuzzing;
mod headers;
mod health;
mod identity;
mod import;
mod inherit;
mod jwt;
pub(crate) mod keys;
pub mod limits;
mod listen;
mod logs;
mod lookup;
mod meaning;
mod media;
mod mirror;
mod module_numbers;
mod modules;
mod networks;
mod overrides;
mod parts;
mod paths;
mod reader;
pub mod reference;
mod reload;
mod report;
mod requests;
mod response_buffering;
mod retry;
mod rewrites;
mod routes;
pub mod schema;
mod security;
mod site_names;
mod source;
mod span;
mod suggest;
mod syntax;
pub(crate) mod tables;
mod template;
#[cfg(test)]
mod tests;
mod trace;
mod upstream_tls;
mod values;
mod workers;

use std::path::{Path, PathBuf};

pub use access::{
    Access, AddressRules, AuthCache, Authentication, BasicAuth, ForwardAuth, KeyPart, SignInPart, UsersFile,
};
pub use acme::{
    Acme, Authority, ChallengeChoice, Dns, DnsBy, DnsHook, DnsUpdate, ExternalAccount, KeyType, OnDemand,
    TsigAlgorithm, certificate_path,
};
pub use balancing::{Balance, Balancing, HashKey, Outliers, ServerCookie, ServerSettings};
pub use cache::{CacheRules, CacheStore, Caching, QueryKey};
pub use client_limits::{ClientLimit, HTTP2_RESETS, LimitKey, Rate, TLS_HANDSHAKES};
pub use coding::Coding;
pub use compress::{Compress, Compression};
pub use conditions::{ArrivalCondition, ConditionSet, Conditions, Share, ShareKey, ValuePattern};
pub use cors::{Cors, OriginPattern};
pub use directory::user_runtime_dir;
pub use discovery::{Discovery, Found, Name, Query};
pub use expires::{Expires, ExpiresFor};
pub use external::{External, HostRule, MapRedirects, ProxyProtocol};
pub use fastcgi::FastCgi;
pub use finding::Origin;
pub use headers::{RequestHeaderRules, ResponseHeaders};
pub use health::{Health, Question};
pub use identity::Identity;
pub use jwt::{Jwt, JwtKeys, KeySource, TokenPlace, UrlKeys};
pub use listen::{Address, Buckets, ClientAuth, Listen, Misdirected, Tls, TlsVersion, UnixFile};
pub use logs::{AccessFormat, AccessLog, Log, LogField, LogFormat, LogPart, LogTarget};
pub use lookup::{Lookup, System};
pub use meaning::*;
pub use media::MediaTypes;
pub use mirror::{Mirror, MirrorChoice};
pub use modules::{ModuleSpec, ModuleUse};
pub use overrides::{Buffering, LimitOverrides, LogChoice, Overrides};
pub use report::{Errors, Failure, Place, Problem, Warning};
pub use response_buffering::ResponseBuffering;
pub use retry::Retry;
pub use rewrites::Rewrite;
pub use security::SecurityHeaders;
pub use site_names::{Named, SiteFound, SiteNames};
pub use template::{Part, Template, regex};
pub use trace::{Continued, Otlp, Trace};
pub use upstream_tls::UpstreamTls;
pub use values::{is_within, listen_address};

/// Whether nothing may be decided by a field of this name, in conditions and keys: a client writes what only a proxy can know.
pub fn is_claim(field: &str) -> bool {
    maitred_http::claims::claim(field).is_some()
}

use finding::{Context, Finding, Severity};
use reader::Section;
use syntax::Noise;

/// A configuration that was read from a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it means.
    pub config: Config,
    /// What may not be what was meant.
    pub warnings: Vec<Warning>,
    /// The file, and its text; `None` if it came from options.
    pub text: Option<(PathBuf, String)>,
}

/// Reads a configuration file. Nothing is bound, created or started.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    load_text(path, disk::contents(path).map_err(unreadable)?)
}

/// The same with another text, as if the file had it.
pub fn load_text(path: &Path, text: String) -> Result<Loaded, Failure> {
    let origin = origin(path)?;
    let (config, warnings) = read(&text, &origin, &System).map_err(Failure::Invalid)?;
    Ok(Loaded { config, warnings, text: Some((path.to_owned(), text)) })
}

/// The admin address of a configuration file and the file with its token, whatever else is wrong with the file: a running server
/// can be stopped with a file that has been spoilt since.
pub fn admin_address(path: &Path) -> Result<(Option<AdminAddress>, Option<PathBuf>), Failure> {
    let (text, origin) = open(path)?;
    let cx = Context::new(&System);
    let (found, _) = open_all(&cx, &text, &origin, |root| {
        let server = root.section("server");
        (build::admin(&server), build::admin_token(&server))
    });
    Ok(found)
}

fn open(path: &Path) -> Result<(String, Origin), Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    Ok((disk::contents(path).map_err(unreadable)?, origin(path)?))
}

fn origin(path: &Path) -> Result<Origin, Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Origin { name: path.display().to_string(), base })
}

/// What a text means, or everything that is wrong with it. Asks nothing of the machine but through `lookup`.
pub fn read(text: &str, origin: &Origin, lookup: &dyn Lookup) -> Result<(Config, Vec<Warning>), Errors> {
    let cx = Context::new(lookup);
    let (config, noise) = open_all(&cx, text, origin, build::config);
    let sources = cx.sources.borrow();
    let locate = |finding: Finding| sources.problem(finding);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        cx.findings(&noise).into_iter().partition(|finding| finding.severity == Severity::Error);
    match errors.is_empty() {
        true => Ok((config, warnings.into_iter().map(|finding| Warning(locate(finding))).collect())),
        false => Err(Errors(errors.into_iter().map(locate).collect())),
    }
}

/// Puts the text together with the files that it imports, and opens the whole.
fn open_all<R>(
    cx: &Context<'_>,
    text: &str,
    origin: &Origin,
    then: impl FnOnce(&Section<'_>) -> R,
) -> (R, Noise) {
    import::find(cx, text, origin);
    let sources = cx.sources.borrow();
    let mut noise = Noise::default();
    let mut table = import::join(cx, &sources, &mut noise);
    inherit::into_sites(cx, &mut table);
    forward_urls::into_pools(cx, &mut table);
    let root = Section::open(cx, Some(&table), &tables::ROOT, 0..0, "the file".into());
    networks::read(&root);
    root.section("defaults").read_elsewhere();
    (then(&root), noise)
}
