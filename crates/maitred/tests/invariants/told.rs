//! What an application is told of a request, judged by itself: by what was sent, and by what the site says. Relations between two
//! answers do not see what is wrong in both.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::ask::Ask;
use crate::echo::ordered;
use crate::identity::Who;
use crate::judge::{Got, Judged, fault};
use crate::site::{Site, get};

/// Judges an answer to this request.
pub(crate) fn judge(site: &Site, ask: &Ask, got: &Got) -> Judged {
    target(site, ask, got)?;
    user(ask, got)?;
    certificate(ask, got)?;
    credentials(site, ask, got)
}

/// What a front controller is asked for: what was sent.
pub(crate) fn as_sent(ask: &Ask, got: &Got) -> Judged {
    let Some(told) = got.answer.field("x-told-target") else { return Ok(()) };
    let sent = ordered(&ask.target(got.number));
    if sent == told {
        return Ok(());
    }
    fault("what a front controller is asked for", format!("{ask}\nit was {told:?}, and not {sent:?}"))
}

/// The certificate is the one that the client has shown.
fn certificate(ask: &Ask, got: &Got) -> Judged {
    if got.answer.line("method ").is_none() {
        return Ok(());
    }
    let shown = Some(ask.certificate).filter(|who| got.by.is_secure() && *who != Who::None);
    let subject = shown.map(|who| format!("CN={},O=Example\\, Inc.", who.name()));
    let told = got.answer.line("x-ssl-client-s-dn: ");
    let is_verified = got.answer.line("x-ssl-client-verify: ") == shown.map(|_| "SUCCESS");
    if told == subject.as_deref() && is_verified {
        return Ok(());
    }
    fault("the certificate of a client", format!("{ask}\nit was {subject:?}\n{}", got.answer))
}

/// A rewrite that adds to a path.
const BEHIND_R: &str = "\"/r{path}\"";

/// The target that an application gets is the one that was sent, or that with a prefix changed, once.
fn target(site: &Site, ask: &Ask, got: &Got) -> Judged {
    let rewrites = site.routes.iter().filter_map(|route| get(route, "rewrite"));
    let is_changed = ["query", "reroute"].iter().any(|key| site.has(key))
        || rewrites.clone().any(|to| to != BEHIND_R || ask.path.contains(['%', '+']));
    let Some(told) = got.answer.field("x-told-target").filter(|_| !is_changed) else { return Ok(()) };
    let mut sent = ask.target(got.number);
    if !site.says("keep") {
        sent = sent.replace("%2F", "/");
    }
    let mut possible = vec![ordered(&sent)];
    for route in &site.routes {
        let text = |name: &str| get(route, name).map(|value| value.trim_matches('"'));
        let rest = text("strip_prefix").and_then(|prefix| sent.strip_prefix(prefix));
        let begin = text("replace_prefix").unwrap_or("/");
        possible.extend(rest.map(|rest| ordered(&format!("{begin}{rest}"))));
    }
    possible.extend(rewrites.map(|_| ordered(&format!("/r{sent}"))));
    if possible.iter().any(|target| target == told) {
        return Ok(());
    }
    fault("what an application is asked for", format!("{ask}\nit was {told:?}, and none of {possible:?}"))
}

/// The user is the one whose credentials were sent, in each way in which an application is told.
fn user(ask: &Ask, got: &Got) -> Judged {
    let fields = ["x-remote-user: ", "x-guard-user: ", "x-user: "];
    let by_field = fields.iter().find_map(|name| got.answer.line(name));
    if by_field.is_some() && by_field != shown(ask).as_deref() {
        let said = format!("{ask}\nit was {:?}, and the application got {by_field:?}", shown(ask));
        return fault("the user of a request", said);
    }
    // A module gives fields, and no user.
    let by_field = by_field.filter(|_| got.answer.line("x-user: ").is_none());
    let by_interface = got.answer.field("x-told-user").filter(|_| got.answer.line("method ").is_some());
    match by_interface {
        Some(user) if by_field.unwrap_or("-") != user => {
            let said = format!("{ask}\nit was {user:?}, and by a field {by_field:?}\n{}", got.answer);
            fault("the user as an interface has it", said)
        }
        _ => Ok(()),
    }
}

/// Whom the credentials of a request name.
fn shown(ask: &Ask) -> Option<String> {
    let field = |name: &str| {
        let found = ask.fields.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let cookie = |name: &str| {
        let mut pairs = field("cookie").split("; ");
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    if let Some(user) = cookie("session") {
        return Some(user.to_owned());
    }
    if let Some(basic) = field("authorization").strip_prefix("Basic ") {
        let pair = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
        return pair.split_once(':').map(|(user, _)| user.to_owned());
    }
    // The module's tokens have the name as it is.
    if let Some((user, _)) = cookie("token").and_then(|token| token.split_once(".4102444800.")) {
        return Some(user.to_owned());
    }
    let token = field("authorization").strip_prefix("Bearer ").or_else(|| cookie("token"))?;
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"].as_str().map(str::to_owned)
}

/// Where the one gate of a site removes credentials, no application gets them.
fn credentials(site: &Site, ask: &Ask, got: &Got) -> Judged {
    let gates = ["basic_auth", "jwt"];
    let removes = |key: &str| site.get(key).is_some_and(|gate| gate.contains("remove_authorization = true"));
    let is_alone = !site.routes.iter().any(|route| gates.iter().any(|key| get(route, key).is_some()));
    if is_alone && gates.iter().any(|key| removes(key)) && got.answer.line("authorization: ").is_some() {
        return fault("credentials that were to be removed", format!("{ask}\n{}", got.answer));
    }
    Ok(())
}
