//! Who gets an answer: `Require`, `Order`, `Allow`, `Deny`, `Satisfy`, `AuthType`.
//!
//! What cannot be said admits no client.

use super::conditions;
use super::context::{Cx, Layer, Scope, Variable};
use super::tree::Directive;
use crate::drafts::Match;
use crate::files;
use crate::model::Value;
use crate::report::Kind;

/// Who gets an answer in a place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Gate {
    /// No client, for this reason.
    pub(crate) closed: Option<String>,
    /// Requests that get none, before anything else is looked at.
    pub(crate) refused: Vec<Match>,
    /// Requests that get one without the rest.
    pub(crate) admitted: Vec<Match>,
    /// `allow`, `deny`, `basic_auth`, `satisfy`
    pub(crate) keys: Vec<(&'static str, Value)>,
    /// `basic_auth` that is a comment until its file is there.
    pub(crate) later: Option<(&'static str, Value, String)>,
    /// `match`: what else has to hold for an answer.
    pub(crate) needed: Match,
}

/// What a list of requirements comes to.
#[derive(Debug, Clone, Default, PartialEq)]
struct Rules {
    denied: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    /// Users; an empty list is any.
    users: Option<Vec<String>>,
    /// Address or user is enough.
    any: bool,
    admitted: Vec<Match>,
    refused: Vec<Match>,
    needed: Match,
}

impl Rules {
    fn denied() -> Rules {
        Rules { denied: true, ..Rules::default() }
    }

    fn is_open(&self) -> bool {
        *self == Rules::default()
    }
}

/// Directives about this.
pub(crate) const NAMES: &[&str] = &[
    "require",
    "requireall",
    "requireany",
    "requirenone",
    "order",
    "allow",
    "deny",
    "satisfy",
    "authtype",
    "authname",
    "authuserfile",
    "authgroupfile",
    "authbasicprovider",
    "authbasicauthoritative",
    "authmerging",
    "sslrequire",
    "sslrequiressl",
    "sslverifyclient",
    "authdigestprovider",
    "authldapurl",
    "authformprovider",
];

/// Why an outer rule says nothing.
pub(crate) const OVERRIDDEN: &str = "a section within says otherwise";

/// Who gets an answer.
pub(crate) fn of(cx: &Cx<'_>, scope: &Scope<'_, '_>, variables: &[Variable<'_>]) -> Gate {
    let about = Asked { cx, scope, variables };
    match about.rules().and_then(|rules| about.gate(rules)) {
        Ok(gate) => gate,
        Err(why) => Gate { closed: Some(why), ..Gate::default() },
    }
}

/// Whether no client gets an answer by some layers, whatever else they say. `Satisfy` and `AuthMerging` leave that open.
pub(crate) fn is_shut(layers: &[&Layer<'_>]) -> bool {
    let (mut modern, mut old) = (false, false);
    for layer in layers {
        let of = |names: &[&str]| -> Vec<&Directive> {
            layer.own.iter().copied().filter(|one| one.is(names)).collect()
        };
        let named = |one: &Directive, all: &str| {
            one.args.last().is_some_and(|word| word.eq_ignore_ascii_case(all)) && one.args.len() == 2
        };
        if !of(&["satisfy", "authmerging"]).is_empty() {
            return false;
        }
        let (new, before) = (of(MODERN), of(OLD));
        if !new.is_empty() {
            modern = new.iter().all(|one| one.name == "require" && named(one, "denied"));
        }
        if !before.is_empty() {
            let denied = before.iter().any(|one| one.name == "deny" && named(one, "all"));
            old = denied && !before.iter().any(|one| one.name == "allow");
        }
    }
    modern || old
}

/// `Require` and what may be around it, and what stood in its place before 2.4.
const MODERN: &[&str] = &["require", "requireall", "requireany", "requirenone"];
const OLD: &[&str] = &["order", "allow", "deny"];

struct Asked<'c, 'l, 'd> {
    cx: &'c Cx<'c>,
    scope: &'c Scope<'l, 'd>,
    variables: &'c [Variable<'d>],
}

impl Asked<'_, '_, '_> {
    fn rules(&self) -> Result<Rules, String> {
        let (cx, scope) = (self.cx, self.scope);
        if let Some(merging) = scope.last("authmerging").filter(|one| !one.arg(0).eq_ignore_ascii_case("off"))
        {
            cx.not_possible(merging, "rules of several sections are not combined: the place answers 403");
            return Err(merging.shown.clone());
        }
        let modern = self.modern()?;
        let old = self.old()?;
        let satisfy = scope.last("satisfy");
        if let Some(satisfy) = satisfy {
            cx.translated(satisfy);
        }
        let either = satisfy.is_some_and(|one| one.arg(0).eq_ignore_ascii_case("any"));
        if either {
            // An address that is enough needs no password; without addresses, all are enough.
            return match (old.is_open(), modern.users.is_some()) {
                (true, _) => Ok(old),
                (false, false) => Err("`Satisfy Any` has no user beside addresses".into()),
                (false, true) if old.denied => Ok(modern),
                (false, true) => Ok(Rules { users: modern.users, any: true, ..old }),
            };
        }
        both(modern, old)
    }

    /// `Require` and what may be around it.
    fn modern(&self) -> Result<Rules, String> {
        self.overridden(MODERN);
        let found = self.scope.innermost(MODERN);
        if found.is_empty() { Ok(Rules::default()) } else { self.any(&found) }
    }

    /// Says of what stands further out that it has no effect in this part.
    fn overridden(&self, names: &[&str]) {
        let inner = self.scope.innermost(names);
        let is_inner = |one: &Directive| inner.iter().any(|known| std::ptr::eq(*known, one));
        for one in self.scope.all(names).into_iter().filter(|one| !is_inner(one)) {
            self.cx.say(one, Kind::NotNeeded, OVERRIDDEN);
            self.cx.silence(one, OVERRIDDEN);
        }
    }

    fn any(&self, all: &[&Directive]) -> Result<Rules, String> {
        let mut rules = Rules::default();
        let (mut something, mut granted, mut single) = (false, false, None);
        for one in all {
            let found = match self.one(one) {
                Ok(found) => found,
                // One way in less.
                Err(_) => continue,
            };
            if found.denied {
                continue;
            }
            something = true;
            if found.is_open() {
                granted = true;
            }
            let plain = found.deny.is_empty()
                && found.refused.is_empty()
                && !(found.users.is_some() && !found.allow.is_empty() && !found.any);
            if !plain || (all.len() > 1 && !found.needed.is_empty()) {
                single = Some(found.clone());
            }
            rules.allow.extend(found.allow);
            rules.admitted.extend(found.admitted);
            rules.needed = found.needed;
            match (&mut rules.users, found.users) {
                (Some(known), Some(new)) if known.is_empty() || new.is_empty() => known.clear(),
                (Some(known), Some(new)) => known.extend(new),
                (known, new) => *known = known.take().or(new),
            }
        }
        match (granted, single) {
            (true, _) => return Ok(Rules::default()),
            (false, Some(one)) if all.len() == 1 => return Ok(one),
            (false, Some(_)) => return Err("alternatives are addresses and users here".into()),
            _ => {}
        }
        if !something {
            return Ok(Rules::denied());
        }
        rules.any = !rules.allow.is_empty() && rules.users.is_some();
        let others = rules.allow.is_empty() && rules.users.is_none() && rules.needed.is_empty();
        rules.denied = others && !rules.admitted.is_empty();
        Ok(rules)
    }

    fn every(&self, all: &[&Directive]) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for one in all {
            rules = both(rules, self.one(one)?)?;
        }
        Ok(rules)
    }

    fn one(&self, directive: &Directive) -> Result<Rules, String> {
        let inside: Vec<&Directive> =
            directive.inside().iter().filter(|one| one.name.starts_with("require")).collect();
        let found = match directive.name.as_str() {
            "requireall" => self.every(&inside),
            "requireany" => self.any(&inside),
            "requirenone" => self.none(&inside),
            _ => self.leaf(directive),
        };
        match &found {
            Ok(_) => self.cx.translated(directive),
            Err(why) => self.cx.not_possible(directive, format!("{why}: the place does not open by it")),
        }
        found
    }

    fn none(&self, inside: &[&Directive]) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for one in inside {
            rules = both(rules, negated(self.one(one)?)?)?;
        }
        Ok(rules)
    }

    fn leaf(&self, directive: &Directive) -> Result<Rules, String> {
        let (words, not) = match directive.args.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case("not") => (rest, true),
            _ => (directive.args.as_slice(), false),
        };
        let (kind, values) = words.split_first().ok_or("it names nothing")?;
        let first = values.first().map(String::as_str).unwrap_or_default();
        let rules = match kind.to_ascii_lowercase().as_str() {
            "all" if first.eq_ignore_ascii_case("granted") => Rules::default(),
            "all" => Rules::denied(),
            "ip" => {
                let networks =
                    values.iter().map(|value| conditions::network(value)).collect::<Option<Vec<_>>>();
                Rules { allow: networks.ok_or("this is no list of addresses")?, ..Rules::default() }
            }
            "local" => Rules { allow: vec!["@loopback".into()], ..Rules::default() },
            "valid-user" => Rules { users: Some(Vec::new()), ..Rules::default() },
            "user" => Rules { users: Some(values.to_vec()), ..Rules::default() },
            "group" => Rules { users: Some(self.members(values)?), ..Rules::default() },
            "env" => Rules { admitted: self.variable(first)?, ..Rules::default() },
            "ssl" => Rules {
                needed: Match { keys: vec![("tls", true.into())], ..Match::default() },
                ..Rules::default()
            },
            "ssl-verify-client" => {
                let keys = vec![("client_certificate", true.into())];
                Rules { needed: Match { keys, ..Match::default() }, ..Rules::default() }
            }
            "expr" => {
                let selector = conditions::expression(&values.join(" "))?;
                if !selector.paths.is_empty() || selector.regex.is_some() || !selector.methods.is_empty() {
                    return Err("an expression about paths or methods is no requirement here".into());
                }
                Rules { admitted: vec![selector.condition], ..Rules::default() }
            }
            other => return Err(format!("there is no counterpart of `Require {other}`")),
        };
        if not { negated(rules) } else { Ok(rules) }
    }

    fn variable(&self, name: &str) -> Result<Vec<Match>, String> {
        let found: Vec<&Variable<'_>> =
            self.variables.iter().filter(|variable| variable.name == name).collect();
        if found.is_empty() {
            return Err(format!("nothing sets `{name}`"));
        }
        let mut all = Vec::new();
        for variable in found {
            let selector = variable
                .selector
                .as_ref()
                .ok_or_else(|| format!("what sets `{name}` is no condition here"))?;
            let plain = selector.regex.is_none() && selector.methods.is_empty() && selector.more.is_empty();
            let plain = plain && (selector.paths.is_empty() || selector.condition.is_empty());
            if !plain {
                return Err(format!("what sets `{name}` is no condition here"));
            }
            self.cx.translated(variable.directive);
            let mut condition = selector.condition.clone();
            if !selector.paths.is_empty() {
                let paths = selector.paths.iter().map(super::globs::Glob::show).collect();
                condition.any = vec![Match { paths, ..Match::default() }];
            }
            all.push(condition);
        }
        Ok(all)
    }

    /// The users of groups, by the file as it is now.
    fn members(&self, groups: &[String]) -> Result<Vec<String>, String> {
        let given = self.scope.last("authgroupfile").ok_or("no `AuthGroupFile` is named")?;
        if !self.cx.loader.looks {
            return Err("no files are looked up for a text".into());
        }
        let path = self.cx.loader.below(&self.cx.loader.absolute(given.arg(0)));
        let text = files::read(&path).map_err(|_| "the file of groups is not there".to_owned())?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let of = lines.filter(|(name, _)| groups.iter().any(|group| group == name.trim()));
        let users: Vec<String> = of
            .flat_map(|(_, users)| users.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .take(1000)
            .collect();
        if users.is_empty() {
            return Err("the file has no user in these groups".into());
        }
        self.cx.say(
            given,
            Kind::Translated,
            "its users as they are now: those who are added later are not in the output",
        );
        Ok(users)
    }

    /// `Order`, `Allow`, `Deny`.
    fn old(&self) -> Result<Rules, String> {
        self.overridden(OLD);
        let found = self.scope.innermost(OLD);
        if found.is_empty() {
            return Ok(Rules::default());
        }
        let order = found
            .iter()
            .rev()
            .find(|one| one.name == "order")
            .map(|one| one.text().to_ascii_lowercase().replace(' ', ""));
        let allow_last = order.as_deref().is_none_or(|order| order == "deny,allow");
        let mut sides = [Side::default(), Side::default()];
        for one in &found {
            let side = match one.name.as_str() {
                "order" => {
                    self.cx.translated(one);
                    continue;
                }
                "allow" => 0,
                _ => 1,
            };
            let read = self.side(one, &mut sides[side]);
            match &read {
                Ok(()) => self.cx.translated(one),
                Err(why) => self.cx.not_possible(one, format!("{why}: the place answers 403 instead")),
            }
            // A client less that gets in is no harm.
            if side == 1 {
                read?;
            }
        }
        let [allow, deny] = sides;
        let unnamed = |side: &Side| side.networks.is_empty() && side.conditions.is_empty() && !side.all;
        Ok(match allow_last {
            true if deny.all && allow.all => Rules::default(),
            true if deny.all && unnamed(&allow) => Rules::denied(),
            true if deny.all => Rules {
                denied: allow.networks.is_empty(),
                allow: allow.networks,
                admitted: allow.conditions,
                ..Rules::default()
            },
            true if allow.all => Rules::default(),
            true if !unnamed(&allow) && !unnamed(&deny) => {
                return Err("networks are excepted from others in turn".into());
            }
            true => Rules { deny: deny.networks, refused: deny.conditions, ..Rules::default() },
            false if deny.all || unnamed(&allow) => Rules::denied(),
            false if allow.all => Rules { deny: deny.networks, refused: deny.conditions, ..Rules::default() },
            false => Rules {
                denied: allow.networks.is_empty(),
                allow: allow.networks,
                admitted: if unnamed(&deny) { allow.conditions } else { Vec::new() },
                deny: deny.networks,
                refused: deny.conditions,
                ..Rules::default()
            },
        })
    }

    fn side(&self, directive: &Directive, side: &mut Side) -> Result<(), String> {
        for word in directive.args.iter().skip(usize::from(directive.arg(0).eq_ignore_ascii_case("from"))) {
            match word.to_ascii_lowercase().as_str() {
                "all" => side.all = true,
                lower if lower.starts_with("env=") => {
                    let name = word.get(4..).unwrap_or_default();
                    side.conditions.extend(self.variable(name)?);
                }
                lower => match conditions::network(lower) {
                    Some(network) => side.networks.push(network),
                    None if lower == "localhost" => side.networks.push("@loopback".into()),
                    None => return Err("names of clients are not looked up".into()),
                },
            }
        }
        Ok(())
    }

    fn gate(&self, rules: Rules) -> Result<Gate, String> {
        let (cx, scope) = (self.cx, self.scope);
        let mut gate = Gate {
            refused: rules.refused,
            admitted: rules.admitted,
            needed: rules.needed,
            ..Gate::default()
        };
        self.of_tls(&mut gate)?;
        if rules.denied {
            gate.closed = Some("no client may".into());
            return Ok(gate);
        }
        for (key, networks) in [("allow", &rules.allow), ("deny", &rules.deny)] {
            if !networks.is_empty() {
                gate.keys.push((key, Value::texts(networks)));
            }
        }
        let Some(users) = rules.users else { return Ok(gate) };
        let (table, there) = self.credentials()?;
        match there {
            true => gate.keys.push(("basic_auth", table)),
            false if rules.any || users.is_empty() => {
                gate.later = Some(("basic_auth", table, "its file is there on this machine".to_owned()));
            }
            false => return Err("the file with the users is not there".into()),
        }
        if rules.any && there {
            gate.keys.push(("satisfy", "any".into()));
        }
        if !users.is_empty() {
            if rules.any {
                let by = scope.innermost(&["require", "requireany"]);
                by.iter().for_each(|one| {
                    cx.not_possible(*one, "an address instead of one of some users is not admitted")
                });
                return Err("users beside addresses".into());
            }
            let keys = vec![("user", Value::texts(&users))];
            gate.needed =
                gate.needed.and(&Match { keys, ..Match::default() }).ok_or("users are named twice")?;
        }
        Ok(gate)
    }

    /// `basic_auth`, and whether its file is there.
    fn credentials(&self) -> Result<(Value, bool), String> {
        let (cx, scope) = (self.cx, self.scope);
        let closed = |directive: &Directive, why: &str| {
            cx.not_possible(directive, format!("{why}: what it protects answers 403 instead"));
            Err(why.to_owned())
        };
        let kind = scope.last("authtype");
        if let Some(kind) = kind.filter(|kind| !kind.arg(0).eq_ignore_ascii_case("basic")) {
            return closed(kind, "users are known by Basic authentication here");
        }
        if let Some(provider) = scope.last("authbasicprovider").filter(|one| one.args != ["file"]) {
            return closed(provider, "users are those of a file here");
        }
        let by_require = || scope.innermost(&["require", "requireany", "requireall"]).into_iter().next();
        let Some(file) = scope.last("authuserfile") else {
            return match kind.or_else(by_require) {
                Some(directive) => closed(directive, "no `AuthUserFile` is named"),
                None => Err("no `AuthUserFile` is named".into()),
            };
        };
        let path = cx.loader.absolute(file.arg(0));
        let there = cx.shared.machine.has_file(&path);
        let why = if there {
            ""
        } else {
            "as a comment: the file is not there on this machine, and until then no client may"
        };
        ["authtype", "authname", "authbasicprovider", "authbasicauthoritative"]
            .iter()
            .filter_map(|name| scope.last(name))
            .for_each(|one| cx.translated(one));
        cx.say(file, Kind::Translated, why);
        let realm = scope.last("authname").map_or_else(|| "restricted".to_owned(), Directive::text);
        let table = vec![("realm".to_owned(), realm.into()), ("users_file".to_owned(), path.into())];
        Ok((Value::Table(table), there))
    }

    /// `SSLRequireSSL`, `SSLVerifyClient`, `SSLRequire`.
    fn of_tls(&self, gate: &mut Gate) -> Result<(), String> {
        let (cx, scope) = (self.cx, self.scope);
        if let Some(one) = scope.last("sslrequire") {
            cx.not_possible(one, "there is no such expression: the place answers 403 instead");
            return Err(one.shown.clone());
        }
        let mut keys = Vec::new();
        if let Some(one) = scope.last("sslrequiressl") {
            cx.translated(one);
            keys.push(("tls", true.into()));
        }
        if let Some(one) = scope.last("sslverifyclient") {
            match one.arg(0).to_ascii_lowercase().as_str() {
                "require" => {
                    cx.translated(one);
                    keys.push(("client_certificate", true.into()));
                }
                "none" | "optional" => cx.translated(one),
                _ => {
                    cx.not_possible(
                        one,
                        "a certificate is verified, or none is asked for: the place answers 403 instead",
                    );
                    return Err(one.shown.clone());
                }
            }
        }
        let condition = Match { keys, ..Match::default() };
        gate.needed = gate.needed.and(&condition).ok_or("the conditions cannot be combined in one route")?;
        Ok(())
    }
}

#[derive(Default)]
struct Side {
    all: bool,
    networks: Vec<String>,
    conditions: Vec<Match>,
}

fn negated(rules: Rules) -> Result<Rules, String> {
    if rules.is_open() {
        return Ok(Rules::denied());
    }
    let only = |part: Rules| part == rules;
    if only(Rules { allow: rules.allow.clone(), ..Rules::default() }) {
        return Ok(Rules { deny: rules.allow, ..Rules::default() });
    }
    if only(Rules { admitted: rules.admitted.clone(), ..Rules::default() }) {
        return Ok(Rules { refused: rules.admitted, ..Rules::default() });
    }
    if rules == Rules::denied() {
        return Ok(Rules::default());
    }
    Err("what may not hold are addresses and variables here".into())
}

/// Both have to hold.
fn both(ours: Rules, theirs: Rules) -> Result<Rules, String> {
    if ours.denied && ours.admitted.is_empty() || theirs.denied && theirs.admitted.is_empty() {
        return Ok(Rules::denied());
    }
    if ours.is_open() {
        return Ok(theirs);
    }
    if theirs.is_open() {
        return Ok(ours);
    }
    let mixed = |rules: &Rules| rules.any || !rules.admitted.is_empty();
    if mixed(&ours) || mixed(&theirs) || (!ours.allow.is_empty() && !theirs.allow.is_empty()) {
        return Err("these rules together are more than a place can have".into());
    }
    let users = match (ours.users, theirs.users) {
        (Some(one), Some(other)) if one.is_empty() => Some(other),
        (Some(one), Some(other)) if other.is_empty() => Some(one),
        (Some(_), Some(_)) => return Err("two lists of users".into()),
        (one, other) => one.or(other),
    };
    let needed = ours.needed.and(&theirs.needed).ok_or("the conditions cannot be combined in one route")?;
    let joined = |one: Vec<_>, other: Vec<_>| one.into_iter().chain(other).collect::<Vec<_>>();
    Ok(Rules {
        denied: false,
        allow: ours.allow.into_iter().chain(theirs.allow).collect(),
        deny: ours.deny.into_iter().chain(theirs.deny).collect(),
        users,
        any: false,
        admitted: Vec::new(),
        refused: joined(ours.refused, theirs.refused),
        needed,
    })
}
