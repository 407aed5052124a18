//! Keys of a route.

use super::keys::{Default, Key, Kind, Table};
use super::{
    access, cache, client_limits, compress, conditions, cors, expires, fastcgi, files, headers, jwt, media,
    mirror, modules, overrides, response_buffering, rewrites, security,
};

/// `error_pages`
pub(super) const ERROR_PAGES: Key = Key::new(
    "error_pages",
    Kind::Map("status = path"),
    Default::Absent("short texts"),
    "For a status from 400 to 599, the path of a file under the site's `root` that is sent as its body: for errors \
     of files, of pools, of request bodies, and for `respond` without a `body`. Error responses of an application \
     itself stay as they are. Those of a route come before those of its site.",
);

/// `methods` of a site
pub(super) const METHODS_OF_SITE: Key = Key::new(
    "methods",
    Kind::Texts("methods such as `\"GET\"`"),
    Default::Texts(&[]),
    "Methods of the site's routes that name none, and of its own `root`. Another one gets 405. Empty: all that the handler \
     supports.",
);

/// `[[site.route]]`
pub(super) const ROUTE: Table = Table {
    title: "[[site.route]]",
    doc: "The handler of some paths of the site above it: exactly one of `root`, `redirect`, `respond`, `pool` \
          and `reroute`; or a `module`. Routes are tried in the order of the file, and the first that matches decides.",
    example: "[[site.route]]\npath = \"/app/*\"\npool = \"web\"\n\n[[site.route]]\npath = \"/old/*\"\n\
              redirect = \"https://example.com{uri}\"\nstatus = 301\n\n[[site.route]]\npath = \"*.bak\"\n\
              respond = { status = 404 }\n",
    keys: &[
        Key::new(
            "path",
            Kind::TextOrTexts("`\"/exact\"`, `\"/prefix/*\"`, `\"*.php\"`, `\"/a/*/b\"`"),
            Default::Absent("required, unless `path_regex` or `match` is given: then all paths"),
            "Paths of this route. `*` stands for any characters, `/` included. `/prefix/*` does not match `/prefix`.",
        ),
        Key::new(
            "path_regex",
            Kind::Text("a regular expression, such as `'^/user/(\\d+)$'`"),
            Default::Absent("any path"),
            "A regular expression that the decoded path has to match somewhere (`^` and `$` anchor it), besides `path`. Its \
             groups are `{capture.1}` and so on in `rewrite`, `reroute` and `redirect`. The syntax is that of the crate `regex`: \
             linear in time, so without backreferences and look-around.",
        ),
        conditions::KEY,
        Key::new(
            "methods",
            Kind::Texts("methods such as `\"GET\"`"),
            Default::Texts(&[]),
            "Methods of this route; empty: all that its handler supports. `GET` includes `HEAD`. A request with another \
             method goes to the next route that matches; without one it gets 405.",
        ),
        Key::new(
            "root",
            Kind::Text("a directory"),
            Default::Absent("no files"),
            "Answer with files below this directory. The whole request path is looked up there, less `strip_prefix`.",
        ),
        Key::new(
            "strip_prefix",
            Kind::Text("a path that ends with `/`"),
            Default::Text("/"),
            "The prefix that is removed from the request path: with `root` before the file is looked up, with `pool` before the \
             request goes there.",
        ),
        rewrites::REPLACE_PREFIX,
        rewrites::REWRITE,
        rewrites::QUERY_KEY,
        fastcgi::FRONT_CONTROLLER,
        files::INDEX,
        files::LISTING,
        files::HIDDEN,
        files::SYMLINKS,
        files::PRECOMPRESSED,
        files::TRY,
        files::HEADERS,
        media::TYPES,
        media::CHARSET,
        media::CHARSET_TYPES,
        Key::new(
            "redirect",
            Kind::Text("a URI with placeholders, such as `\"https://example.com{uri}\"`"),
            Default::Absent("no redirect"),
            "Answer with a redirect. `{path}` is the request's path, `{uri}` the path with its query; `docs/routing.md` lists the \
             other placeholders.",
        ),
        Key::new(
            "status",
            Kind::Whole { min: 301, max: 308 },
            Default::Whole(302),
            "With `redirect`: 301, 302, 303, 307 or 308.",
        ),
        Key::new(
            "respond",
            Kind::Section(&RESPOND),
            Default::Absent("nothing fixed"),
            "Answer with a fixed response.",
        ),
        Key::new(
            "pool",
            Kind::Text("the name of a pool"),
            Default::Absent("no pool"),
            "Hand the request to `[pool.NAME]`.",
        ),
        rewrites::REROUTE,
        modules::KEY,
        access::ALLOW,
        access::DENY,
        access::BASIC,
        jwt::KEY,
        access::FORWARD,
        access::SATISFY,
        client_limits::KEY,
        ERROR_PAGES,
        overrides::LIMITS_KEY,
        overrides::ACCESS_LOG,
        overrides::SERVER_HEADER,
        overrides::REQUEST_BUFFERING,
        overrides::GRPC_WEB,
        response_buffering::KEY,
        mirror::KEY,
        overrides::DELAY,
        headers::RESPONSE_KEY,
        expires::KEY,
        cors::KEY,
        security::KEY,
        compress::KEY,
        cache::KEY,
        headers::REQUEST_KEY,
    ],
};

/// `respond`
pub(super) const RESPOND: Table = Table {
    title: "respond",
    doc: "A fixed response of a route.",
    example: "[[site.route]]\npath = \"/gone\"\nrespond = { status = 410, body = \"This page is gone.\\n\" }\n",
    keys: &[
        Key::new(
            "status",
            Kind::Whole { min: 200, max: 599 },
            Default::Whole(200),
            "The status. 444 closes the connection (over HTTP/2: resets the stream) without a response.",
        ),
        Key::new(
            "body",
            Kind::Text("text"),
            Default::Text(""),
            "The body. An error status without a body has the site's error page.",
        ),
        Key::new(
            "content_type",
            Kind::Text("a media type"),
            Default::Text("text/plain; charset=utf-8"),
            "The body's media type.",
        ),
    ],
};
