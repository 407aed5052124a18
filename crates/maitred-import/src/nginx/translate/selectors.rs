//! Which requests a location takes, in the order of nginx and in that of Maitred.

use super::context::Context;
use crate::drafts::{Match, Route, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;

/// How a location is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modifier {
    /// `=`
    Exact,
    /// `^~`
    Forced,
    /// None.
    Prefix,
    /// `~`
    Regex,
    /// `~*`
    AnyCase,
    /// `@name`
    Named,
}

/// A location, with what holds in it.
#[derive(Debug, Clone)]
pub(crate) struct Location<'a> {
    /// The directive.
    pub(crate) directive: &'a Directive,
    /// How it is chosen.
    pub(crate) modifier: Modifier,
    /// The location's path, regular expression or name.
    pub(crate) pattern: String,
    /// What holds in it.
    pub(crate) scope: Scope<'a>,
    /// The prefix of the location around it.
    pub(crate) parent: Option<String>,
}

/// Requests that a route takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    /// `path`; none is any.
    pub(crate) paths: Vec<String>,
    /// `path_regex`
    pub(crate) regex: Option<String>,
    /// Paths that it leaves to later routes.
    pub(crate) except: Vec<String>,
    /// The prefix that its paths begin with, if it is one.
    pub(crate) prefix: Option<String>,
    /// Further conditions.
    pub(crate) condition: Match,
    /// Methods; none is all.
    pub(crate) methods: Vec<String>,
}

impl Selector {
    /// A route for these requests.
    pub(crate) fn route(&self, directive: &Directive, target: Target) -> Route {
        let mut route = Route::new(&directive.place, &directive.shown(), target);
        route.paths.clone_from(&self.paths);
        route.regex.clone_from(&self.regex);
        route.condition = self.condition.clone();
        if !self.except.is_empty() {
            let paths = Match { paths: self.except.clone(), ..Match::default() };
            if !route.condition.not.contains(&paths) {
                route.condition.not.push(paths);
            }
        }
        route.methods.clone_from(&self.methods);
        route
    }
}

/// The locations of a server, with those within others.
pub(crate) fn locations<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    parent: Option<&Location<'a>>,
) -> Vec<Location<'a>> {
    let mut found = Vec::new();
    for directive in scope.own().iter().filter(|directive| directive.name == "location") {
        let Some((modifier, pattern)) = split(directive) else {
            cx.not_possible(directive, "a location has a path");
            continue;
        };
        let inner = scope.within(directive.inside()).with_groups(&pattern);
        let around = parent.and_then(|parent| match parent.modifier {
            Modifier::Prefix | Modifier::Forced | Modifier::Exact => Some(parent.pattern.clone()),
            _ => None,
        });
        let is_regex = matches!(modifier, Modifier::Regex | Modifier::AnyCase);
        if let (Some(parent), true) = (parent.filter(|_| around.is_none()), is_regex) {
            let why = format!(
                "it is within `{}`, and a route has one regular expression",
                parent.directive.shown()
            );
            cx.not_possible(directive, why);
            continue;
        }
        let location = Location { directive, modifier, pattern, scope: inner.clone(), parent: around };
        let nested = locations(cx, &inner, Some(&location));
        found.push(location);
        found.extend(nested);
    }
    found
}

fn split(directive: &Directive) -> Option<(Modifier, String)> {
    let signs = [
        ("^~", Modifier::Forced),
        ("~*", Modifier::AnyCase),
        ("~", Modifier::Regex),
        ("=", Modifier::Exact),
        ("@", Modifier::Named),
    ];
    let (first, second) = (directive.arg(0), directive.args.get(1));
    let (modifier, pattern) = match (signs.iter().find(|(sign, _)| first.starts_with(sign)), second) {
        (Some((sign, modifier)), Some(pattern)) if sign.len() == first.len() => (*modifier, pattern.clone()),
        (Some((sign, modifier)), _) => (*modifier, first.strip_prefix(sign)?.to_owned()),
        (None, _) => (Modifier::Prefix, first.to_owned()),
    };
    (!pattern.is_empty()).then_some((modifier, pattern))
}

/// The requests of a location. `prefixes` are all prefixes of the server.
///
/// # Errors
/// Why it cannot be said.
pub(crate) fn of(location: &Location<'_>, prefixes: &[String]) -> Result<Selector, String> {
    let pattern = location.pattern.as_str();
    // What nginx leaves to a longer prefix.
    let longer = |than: &str| -> Vec<String> {
        let is = |prefix: &&String| prefix.len() > than.len() && prefix.starts_with(than);
        prefixes.iter().filter(is).map(|prefix| under(prefix)).collect()
    };
    if pattern.contains(['*', '?', '#', '{', '}']) && !is_regex(location.modifier) {
        return Err("`*`, `?`, `#` and braces mean something else in a path here".into());
    }
    match location.modifier {
        Modifier::Exact => Ok(Selector { paths: vec![pattern.to_owned()], ..Selector::default() }),
        Modifier::Prefix | Modifier::Forced => Ok(Selector {
            paths: vec![under(pattern)],
            prefix: Some(pattern.to_owned()),
            except: if location.modifier == Modifier::Forced { longer(pattern) } else { Vec::new() },
            ..Selector::default()
        }),
        Modifier::Named => Err("it is a name".into()),
        Modifier::Regex | Modifier::AnyCase => {
            let mut selector = regex(pattern, location.modifier == Modifier::AnyCase)?;
            if let Some(parent) = &location.parent {
                if selector.regex.is_none() {
                    selector =
                        Selector { regex: Some(values::regex(pattern, false)?), ..Selector::default() };
                }
                selector.paths = vec![under(parent)];
                selector.except = longer(parent);
            }
            Ok(selector)
        }
    }
}

fn is_regex(modifier: Modifier) -> bool {
    matches!(modifier, Modifier::Regex | Modifier::AnyCase)
}

/// Everything that begins with a prefix.
pub(crate) fn under(prefix: &str) -> String {
    format!("{prefix}*")
}

/// Whether a location leaves out paths in any case, where a route leaves them out as they are written.
pub(crate) fn leaves_any_case(location: &Location<'_>) -> bool {
    let left = values::without_look_ahead(&location.pattern, false).map(|(_, left)| left);
    let letters = |path: &String| path.bytes().any(|byte| byte.is_ascii_alphabetic());
    location.modifier == Modifier::AnyCase && left.is_some_and(|left| left.iter().any(letters))
}

/// A regular expression as patterns, if it is no more than that.
pub(super) fn regex(pattern: &str, any_case: bool) -> Result<Selector, String> {
    if let Some(selector) = with_exceptions(pattern) {
        return Ok(selector);
    }
    if let Some(paths) = php(pattern) {
        return Ok(Selector { paths, ..Selector::default() });
    }
    if let Some((rest, left)) = values::without_look_ahead(pattern, false) {
        let mut selector = regex(&rest, any_case)?;
        selector.except.extend(left);
        return Ok(selector);
    }
    let letters = pattern.bytes().any(|byte| byte.is_ascii_alphabetic());
    match values::as_patterns(pattern).filter(|_| !any_case || !letters) {
        Some(paths) => Ok(Selector { paths, ..Selector::default() }),
        None => Ok(Selector { regex: Some(values::regex(pattern, any_case)?), ..Selector::default() }),
    }
}

/// Names that begin with a dot, but for `.well-known`: the shapes in which that is written.
fn with_exceptions(pattern: &str) -> Option<Selector> {
    let rest = pattern
        .trim_start_matches('^')
        .trim_start_matches("(^|/)")
        .trim_start_matches('/')
        .trim_start_matches(r"\/");
    let rest = rest.strip_prefix(r"\.").or_else(|| rest.strip_prefix("[.]"))?;
    let inside = rest.strip_prefix("(?!")?.split(')').next()?;
    let well_known = inside
        .replace('\\', "")
        .trim_end_matches('/')
        .trim_end_matches(".*")
        .trim_end_matches('/')
        .to_owned();
    (well_known == "well-known").then(|| Selector {
        paths: vec!["*/.*".into()],
        except: vec!["/.well-known/*".into()],
        ..Selector::default()
    })
}

/// The shapes in which scripts of PHP are written.
fn php(pattern: &str) -> Option<Vec<String>> {
    let with_path = [
        r"\.php(/|$)",
        r"[^/]\.php(/|$)",
        r"\.php(?:$|/)",
        r"\.php($|/)",
        r"^(.+\.php)(/.*)?$",
        r"^.+\.php(/|$)",
        r"^(.+\.php)(.*)$",
        r".+\.php(/|$)",
        r"^.+?\.php(/.*)?$",
        r"^.+\.php(?:/|$)",
        r"^(.+?\.php)(/.*)?$",
        r"\.php",
    ];
    let plain =
        [r"\.php$", r"^.+\.php$", r".+\.php$", r"^(.+\.php)$", r"[^/]\.php$", r".php$", r"^(.*)\.php$"];
    match (plain.contains(&pattern), with_path.contains(&pattern)) {
        (true, _) => Some(vec!["*.php".into()]),
        (_, true) => Some(vec!["*.php".into(), "*.php/*".into()]),
        _ => None,
    }
}

/// Whether a location is for scripts of PHP.
pub(crate) fn is_php(location: &Location<'_>) -> bool {
    is_regex(location.modifier) && location.pattern.contains("php")
}
