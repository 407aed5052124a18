//! What no other part has looked at: directives that say nothing to clients, and what is not possible.

use super::context::{Cx, Layer};
use super::sections;
use super::tls;
use super::tree::Directive;
use crate::report::Kind;

/// Keep Apache: what has no counterpart, and belongs to modules of its own.
const KEEP: &str = "keep Apache behind Maitred with mod_maitred for this (docs/applications.md): Maitred \
                 has nothing like it";

/// Directives that have no counterpart because nothing is needed, or because it is a setting of Maitred's own, with the reason.
const SILENT: &[(&str, Kind, &str)] = &[
    (
        "serverroot pidfile lockfile mutex coredumpdirectory scoreboardfile user group chrootdir \
                 suexecusergroup threadlimit \
      startservers minsparethreads maxsparethreads minspareservers maxspareservers maxrequestworkers \
                 maxclients maxconnectionsperchild \
      maxrequestsperchild serverlimit threadsperchild listenbacklog acceptfilter enablemmap enablesendfile \
                 hostnamelookups \
      gracefulshutdowntimeout extendedstatus asyncrequestworkerfactor receivebuffersize sendbuffersize \
                 threadstacksize maxmemfree",
        Kind::NotNeeded,
        "how Maitred runs is a choice of its own ([server]), and clients do not see it",
    ),
    (
        "errorlog loglevel errorlogformat logformat rewritelog rewriteloglevel ssllogfile dumpioinput \
                 forensiclog",
        Kind::NotNeeded,
        "errors go to Maitred's own log ([log]), and clients do not see it",
    ),
    ("cgipassauth", Kind::NotNeeded, "applications get `Authorization` and all other fields of the client"),
    ("limitrequestbody", Kind::NotNeeded, "no application gets a body there, and files take none"),
    ("serveradmin", Kind::NotNeeded, "no page of Maitred's names an administrator"),
    (
        "serversignature servertokens",
        Kind::Better,
        "errors have no line about the server, and `server_header` says whether it names itself",
    ),
    ("traceenable", Kind::NotNeeded, "TRACE is refused by Maitred"),
    (
        "usecanonicalname usecanonicalphysicalport",
        Kind::NotNeeded,
        "redirects have the host that the client has asked for",
    ),
    ("namevirtualhost", Kind::NotNeeded, "names select sites at every address, as in httpd 2.4"),
    (
        "allowoverride allowoverridelist accessfilename",
        Kind::NotNeeded,
        "the files that it is about have been read, or are left out, by what it says",
    ),
    ("directoryslash", Kind::Worse, "directories with an index are redirected to the path with a slash"),
    (
        "indexoptions indexignore indexorderdefault indexstylesheet readmename headername addicon \
                 addiconbytype addiconbyencoding defaulticon \
      adddescription addalt addaltbytype addaltbyencoding indexheadinsert indexignorereset",
        Kind::Choice,
        "listings are pages of Maitred's own",
    ),
    (
        "keepalive maxkeepaliverequests keepalivetimeout",
        Kind::Choice,
        "connections are kept as [limits] says: `keep_alive_timeout`",
    ),
    (
        "timeout requestreadtimeout proxytimeout",
        Kind::Choice,
        "[limits] has times of its own, which bound slow clients",
    ),
    (
        "limitrequestfields limitrequestfieldsize limitrequestline limitxmlrequestbody limitinternalrecursion",
        Kind::Choice,
        "[limits] has bounds of its own",
    ),
    (
        "deflatecompressionlevel deflatebuffersize deflatewindowsize deflatememlevel deflatefilternote \
                 brotlicompressionquality brotlialteretag \
      deflatealteretag",
        Kind::Choice,
        "`compress` has a level of its own",
    ),
    ("fileetag", Kind::Choice, "files have a strong `ETag` of Maitred's own"),
    ("contentdigest", Kind::Better, "`Content-MD5` is not sent: RFC 9110 has it no more"),
    (
        "addencoding addlanguage languagepriority forcelanguagepriority defaultlanguage addcharset",
        Kind::Choice,
        "files are sent by the ends of their names, and no language is chosen",
    ),
    ("typesconfig mimemagicfile", Kind::NotNeeded, "media types follow from the ends of names"),
    (
        "browsermatch browsermatchnocase setenvif setenvifnocase setenvifexpr setenv passenv unsetenv",
        Kind::Choice,
        "what nothing here asks for is not set",
    ),
    (
        "sslciphersuite sslhonorcipherorder sslopensslconfcmd sslcompression sslinsecurerenegotiation \
                 sslproxyprotocol sslproxyciphersuite",
        Kind::Choice,
        "cipher suites are those of rustls, all with forward secrecy; there is neither compression nor \
                 renegotiation",
    ),
    (
        "sslsessioncache sslsessioncachetimeout sslrandomseed sslpassphrasedialog sslmutex sslcryptodevice \
                 sslstaplingcache sslverifydepth \
      sslstaplingresponsemaxage sslstaplingrespondertimeout sslstaplingreturnrespondererrors \
                 sslstrictsnivhostcheck sslsessiontickets",
        Kind::NotNeeded,
        "rustls has its own way, and clients do not see it",
    ),
    ("sslusestapling", Kind::Choice, "`ocsp` of a certificate names the response that is sent along"),
    (
        "ssloptions",
        Kind::Choice,
        "applications get `X-SSL-Client-*` for a verified certificate (docs/tls.md)",
    ),
    (
        "sslproxyengine sslproxyverify sslproxycheckpeername sslproxycheckpeercn sslproxycheckpeerexpire \
                 sslproxycacertificatefile",
        Kind::NotNeeded,
        "no server behind speaks TLS",
    ),
    (
        "sslcacertificatefile sslcacertificatepath sslcarevocationfile sslcarevocationpath sslcarevocationcheck",
        Kind::NotNeeded,
        "no certificate of a client is asked for there",
    ),
    (
        "sslcertificatefile sslcertificatekeyfile sslcertificatechainfile sslprotocol",
        Kind::NotNeeded,
        "`SSLEngine` is off there",
    ),
    (
        "protocols protocolshonororder h2direct h2push h2maxsessionstreams h2earlyhints h2upgrade h2windowsize",
        Kind::Choice,
        "HTTP/2 is offered at every address (`http2` of [[listen]])",
    ),
    ("proxyrequests", Kind::NotNeeded, "Maitred is no proxy for other hosts"),
    (
        "proxyvia proxybadheader proxyreceivebuffersize proxyiobuffersize proxyfcgibackendtype proxyset \
                 proxyaddheaders proxywebsocketidletimeout \
      proxyhcexpr proxyhctemplate",
        Kind::Choice,
        "pools have settings of their own",
    ),
    (
        "proxypreservehost proxypassreverse proxypassreversecookiedomain proxypassreversecookiepath",
        Kind::NotNeeded,
        "no other server is behind this site",
    ),
    (
        "mdprivatekeys mdrenewmode mdrenewwindow mdcertificateprotocol mdstoredir mdbaseserver \
                 mdcachallenges mdnotifycmd mdmessagecmd mdwarnwindow \
      mdportmap mdmembers mdmember mdstapling mdstapleothers mdmuststaple",
        Kind::Choice,
        "[acme] has settings of its own (docs/acme.md)",
    ),
    ("mdrequirehttps", Kind::Worse, "write `redirect_http` into the [[listen]] of cleartext"),
    (
        "php_value php_flag php_admin_value php_admin_flag",
        Kind::NotPossible,
        "keep Apache behind Maitred with mod_maitred for PHP in it (docs/applications.md), or write the \
                 setting into php-fpm's pool",
    ),
    (
        "cacheenable cacheroot cachedisable cachedefaultexpire cachemaxexpire cacheignoreheaders cachelock",
        Kind::Choice,
        "`cache` of a route keeps responses of pools (docs/caching.md)",
    ),
    (
        "setinputfilter filterdeclare filterprovider filterchain substitute",
        Kind::NotPossible,
        "bodies are not changed",
    ),
    ("checkspelling checkcaseonly", Kind::Worse, "names are not corrected"),
    ("enableexceptionhook contentdigest expiresactive", Kind::NotNeeded, "clients do not see it"),
    (
        "authname authtype authuserfile authgroupfile authbasicprovider authbasicauthoritative satisfy",
        Kind::NotNeeded,
        "nothing there asks who the client is",
    ),
    ("lbmethod balancermember", Kind::NotNeeded, "nothing goes to this balancer"),
    ("documentroot", Kind::NotNeeded, "the virtual hosts have directories of their own"),
    ("servername serveralias serverpath", Kind::NotNeeded, "the main server answers nothing here"),
];

/// What a directive that is left means; `None`, if that is not known.
fn silent(name: &str) -> Option<(Kind, &'static str)> {
    let found = SILENT.iter().find(|(names, _, _)| names.split_whitespace().any(|known| known == name));
    found.map(|(_, kind, why)| (*kind, *why))
}

/// Says something of each directive of which nothing was said.
pub(crate) fn account(cx: &Cx<'_>, all: &[Directive]) {
    for one in all {
        let has = cx.shared.report.borrow().has(&one.place, &one.shown);
        match one.name.as_str() {
            _ if has => {}
            "ifmodule" => tls::absent(cx, one),
            _ => rest(cx, one),
        }
        let section =
            one.is(&["directory", "directorymatch", "files", "filesmatch", "location", "locationmatch"]);
        match section && !has && one.block.is_some() {
            true => cx.silence(one, "nothing is served from there"),
            false => account(cx, one.inside()),
        }
    }
}

/// What is in the output, unless its place is closed.
const CLOSED: &str = "directoryindex sethandler require order allow deny rewriterule rewritecond \
                 rewriteengine rewritebase header \
    requestheader errordocument options addtype expiresactive limitrequestbody addoutputfilterbytype \
                 setoutputfilter forcetype php_value php_flag fallbackresource redirect redirectmatch redirectpermanent \
                 redirecttemp expiresbytype \
    expiresdefault alias proxypass";

/// Says of what stands in a place that is closed as it says itself, that it has no effect there.
pub(crate) fn of_closed(cx: &Cx<'_>, layer: &Layer<'_>) {
    let known = |one: &&&Directive| CLOSED.split_whitespace().any(|name| name == one.name);
    for one in layer.own.iter().filter(known) {
        cx.say(*one, Kind::NotNeeded, "no client gets an answer there");
    }
}

fn rest(cx: &Cx<'_>, one: &Directive) {
    let name = one.name.as_str();
    if let Some((kind, why)) = silent(name) {
        let off = name == "proxyrequests" && one.is_on();
        let slash = name == "directoryslash" && one.is_on();
        return match (off, slash) {
            (true, _) => cx.not_possible(one, "Maitred is no proxy for other hosts"),
            (_, true) => cx.say(one, Kind::NotNeeded, "directories are redirected to the path with a slash"),
            _ => cx.say(one, kind, why),
        };
    }
    let keep = [
        "sec",
        "perl",
        "lua",
        "php",
        "dav",
        "svn",
        "wsgi",
        "passenger",
        "fcgid",
        "cgi",
        "script",
        "ext",
        "session",
        "authldap",
        "dbd",
        "jk",
        "oidc",
        "qos",
        "evasive",
        "dos",
        "pagespeed",
        "xss",
        "ajp",
    ];
    match one.name.as_str() {
        "sethandler" if one.arg(0).starts_with("server-") || one.arg(0) == "balancer-manager" => {
            cx.say(one, Kind::Choice, "`maitred status` and the address `admin` show this");
        }
        _ if CLOSED.split_whitespace().any(|known| known == name) => {
            cx.not_possible(one, "what is around it answers 403 instead, or something within says otherwise");
        }
        "addhandler" | "action" | "removehandler" => cx.not_possible(one, KEEP),
        "proxy" | "proxymatch" if one.block.is_some() => {
            cx.say(one, Kind::NotNeeded, "nothing goes to these servers")
        }
        _ if sections::SECTIONS.contains(&name) && one.block.is_some() => {
            cx.say(one, Kind::NotNeeded, "nothing is served from there")
        }
        _ if keep.iter().any(|begin| name.starts_with(begin)) => cx.not_possible(one, KEEP),
        _ => cx.not_possible(one, "there is no key for this"),
    }
}
