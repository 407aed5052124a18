//! Patterns of paths: what a route has in `path`, and how two of them are combined.

/// A path, or a beginning, texts between, and an end, with anything between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    head: String,
    middle: Vec<String>,
    /// `None`: the path is `head`.
    tail: Option<String>,
}

impl Glob {
    /// One path.
    pub(crate) fn exact(path: &str) -> Glob {
        Glob { head: path.to_owned(), middle: Vec::new(), tail: None }
    }

    /// What begins and ends so.
    pub(crate) fn between(head: &str, tail: &str) -> Glob {
        Glob { head: head.to_owned(), middle: Vec::new(), tail: Some(tail.to_owned()) }
    }

    /// What has this text somewhere.
    pub(crate) fn containing(text: &str) -> Glob {
        Glob { head: String::new(), middle: vec![text.to_owned()], tail: Some(String::new()) }
    }

    /// A pattern as a route has it.
    pub(crate) fn parse(text: &str) -> Glob {
        let mut parts = text.split('*').map(str::to_owned);
        let head = parts.next().unwrap_or_default();
        let mut middle: Vec<String> = parts.collect();
        let tail = middle.pop();
        Glob { head, middle, tail }
    }

    /// As a route has it.
    pub(crate) fn show(&self) -> String {
        let Some(tail) = &self.tail else { return self.head.clone() };
        let mut parts = vec![self.head.as_str()];
        parts.extend(self.middle.iter().map(String::as_str));
        parts.push(tail);
        parts.join("*")
    }

    /// What is fixed at its beginning.
    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    /// What is fixed at its end.
    pub(crate) fn tail(&self) -> &str {
        self.tail.as_deref().unwrap_or(&self.head)
    }

    /// Whether it stands for every path.
    pub(crate) fn is_all(&self) -> bool {
        ["", "/"].contains(&self.head.as_str()) && self.middle.is_empty() && self.tail.as_deref() == Some("")
    }

    /// Whether a path fits.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let Some(tail) = &self.tail else { return path == self.head };
        let Some(mut rest) =
            path.strip_prefix(self.head.as_str()).and_then(|rest| rest.strip_suffix(tail.as_str()))
        else {
            return false;
        };
        for part in &self.middle {
            let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
            rest = after;
        }
        true
    }

    /// Whether all that fits the other one fits this one; `false` if that is not plain.
    pub(crate) fn covers(&self, other: &Glob) -> bool {
        match (&self.tail, &other.tail) {
            _ if self.is_all() => true,
            (None, _) => self == other,
            (Some(_), None) => self.fits(&other.head),
            (Some(tail), Some(theirs)) => {
                let ends = other.head.starts_with(&self.head) && theirs.ends_with(tail.as_str());
                ends && (self.middle.is_empty() || self.middle == other.middle)
            }
        }
    }

    /// What fits both; `None`, if that is no list of patterns.
    pub(crate) fn and(&self, other: &Glob) -> Option<Vec<Glob>> {
        let (Some(tail), Some(theirs)) = (&self.tail, &other.tail) else {
            let (exact, pattern) = if self.tail.is_none() { (self, other) } else { (other, self) };
            return Some(if pattern.fits(&exact.head) { vec![exact.clone()] } else { Vec::new() });
        };
        if self.covers(other) {
            return Some(vec![other.clone()]);
        }
        if other.covers(self) {
            return Some(vec![self.clone()]);
        }
        let longer = |a: &str, b: &str, fit: fn(&str, &str) -> bool| match a.len() >= b.len() {
            true => fit(a, b).then(|| a.to_owned()),
            false => fit(b, a).then(|| b.to_owned()),
        };
        let Some(head) = longer(&self.head, &other.head, |a, b| a.starts_with(b)) else {
            return Some(Vec::new());
        };
        let Some(tail) = longer(tail, theirs, |a, b| a.ends_with(b)) else { return Some(Vec::new()) };
        let middle = match (self.middle.is_empty(), other.middle.is_empty()) {
            (true, _) => other.middle.clone(),
            (_, true) => self.middle.clone(),
            _ => return None,
        };
        let whole = Glob { head: head.clone(), middle: middle.clone(), tail: Some(tail.clone()) };
        let mut found = vec![whole];
        // `/a/` and `/b` share the slash in `/a/b`.
        let first = middle.first().unwrap_or(&tail);
        if let Some(rest) = first.strip_prefix('/').filter(|_| head.ends_with('/')) {
            found.push(match middle.split_first() {
                Some((_, middle)) => {
                    Glob { head: format!("{head}{rest}"), middle: middle.to_vec(), tail: Some(tail.clone()) }
                }
                None => Glob::exact(&format!("{head}{rest}")),
            });
        }
        Some(found)
    }
}

/// A directory of URLs and all below it, as `<Location>` and `Alias` mean it; with a slash at its end, what is below it alone.
pub(crate) fn below(path: &str) -> Vec<Glob> {
    match path.strip_suffix('/') {
        Some(_) => vec![Glob::between(path, "")],
        None => vec![Glob::exact(path), Glob::between(&format!("{path}/"), "")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(a: &Glob, b: &Glob) -> Vec<String> {
        a.and(b).unwrap().iter().map(Glob::show).collect()
    }

    #[test]
    fn patterns_are_combined() {
        let under = Glob::between("/x/", "");
        assert_eq!(both(&under, &Glob::between("", ".css")), ["/x/*.css"]);
        assert_eq!(both(&under, &Glob::between("", "/a.php")), ["/x/*/a.php", "/x/a.php"]);
        assert_eq!(both(&under, &Glob::containing("/.ht")), ["/x/*/.ht*", "/x/.ht*"]);
        assert_eq!(both(&under, &Glob::exact("/x/y")), ["/x/y"]);
        assert_eq!(both(&under, &Glob::between("/y/", "")), Vec::<String>::new());
        assert_eq!(both(&Glob::between("", ".css"), &Glob::between("", ".php")), Vec::<String>::new());
        assert!(Glob::between("/", "").covers(&under) && !under.covers(&Glob::between("", ".css")));
        assert!(Glob::containing("/.ht").fits("/a/.htaccess") && !Glob::containing("/.ht").fits("/a"));
        assert!(Glob::containing("/a").and(&Glob::containing("/b")).is_none());
        for text in ["/a", "/a/*", "*.css", "*/.ht*", "/a/*/b*"] {
            assert_eq!(Glob::parse(text).show(), text);
        }
    }
}
