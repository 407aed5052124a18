//! What holds in a location: its own directives, and those of the blocks around it.

use super::tree::Directive;

/// Blocks around a place, the outermost first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'a> {
    levels: Vec<&'a [Directive]>,
    name: Option<String>,
    captures: Vec<String>,
    /// Variables that have this value where the scope is looked at.
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Scope<'a> {
    /// Within one more block.
    #[must_use]
    pub(crate) fn within(&self, inside: &'a [Directive]) -> Scope<'a> {
        let mut scope = self.clone();
        scope.levels.push(inside);
        scope
    }

    /// The same where a variable, which has one of several values, has this one.
    #[must_use]
    pub(crate) fn with_value(&self, variable: &'a str, value: &'a str) -> Scope<'a> {
        let mut scope = self.clone();
        scope.values.push((variable, value));
        scope
    }

    /// The same where variables have the values that they have in another scope.
    #[must_use]
    pub(crate) fn with_values_of(&self, other: &Scope<'a>) -> Scope<'a> {
        let mut scope = self.clone();
        scope
            .values
            .extend(other.values.iter().filter(|(name, _)| !self.values.iter().any(|(own, _)| own == name)));
        scope
    }

    /// In a server of this name.
    #[must_use]
    pub(crate) fn named(mut self, name: Option<&str>) -> Scope<'a> {
        self.name = name.map(str::to_owned);
        self
    }

    /// With the named groups of a regular expression.
    #[must_use]
    pub(crate) fn with_groups(mut self, regex: &str) -> Scope<'a> {
        for piece in regex.split("(?<").skip(1).chain(regex.split("(?P<").skip(1)) {
            if let Some((name, _)) = piece.split_once('>').filter(|(name, _)| !name.starts_with(['=', '!'])) {
                self.captures.push(name.to_owned());
            }
        }
        self
    }

    /// What holds in the server around it: the blocks of `http` and of the server.
    #[must_use]
    pub(crate) fn of_server(&self) -> Scope<'a> {
        let mut scope = self.clone();
        scope.levels.truncate(2);
        scope
    }

    /// The server's first name.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether a variable is a group of a regular expression.
    pub(crate) fn captures(&self, name: &str) -> bool {
        self.captures.iter().any(|group| group == name)
    }

    /// The directives of the innermost block.
    pub(crate) fn own(&self) -> &'a [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// The directive of this name that holds: the last one of the innermost block that has one.
    pub(crate) fn last(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).last().copied()
    }

    /// All directives of a name of the innermost block that has one.
    pub(crate) fn all(&self, name: &str) -> Vec<&'a Directive> {
        self.all_of(&[name])
    }

    /// The same for several names that are inherited together.
    pub(crate) fn all_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            level.iter().filter(|directive| names.contains(&directive.name.as_str())).collect()
        };
        self.levels.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Whether the outermost block has the directive that holds.
    pub(crate) fn outermost(&self, name: &str) -> bool {
        let inner = self.levels.iter().skip(1).flat_map(|level| level.iter());
        !inner.into_iter().any(|directive| directive.name == name)
    }

    /// All directives of a name, of all blocks.
    pub(crate) fn everywhere(&self, name: &str) -> Vec<&'a Directive> {
        self.levels.iter().flat_map(|level| level.iter()).filter(|directive| directive.name == name).collect()
    }

    /// Where a directive is run: the level of its block, and its number there.
    pub(crate) fn at(&self, directive: &Directive) -> Option<(usize, usize)> {
        let within = |(level, block): (usize, &&'a [Directive])| {
            Some((level, block.iter().position(|one| std::ptr::eq(one, directive))?))
        };
        self.levels.iter().enumerate().find_map(within)
    }

    /// What a variable is set to, if that is always the same.
    pub(crate) fn constant(&self, variable: &str) -> Option<&'a str> {
        if let Some((_, value)) = self.values.iter().find(|(name, _)| *name == variable) {
            return Some(value);
        }
        let is = |directive: &&&Directive| directive.arg(0).strip_prefix('$') == Some(variable);
        let mut sets = self.everywhere("set");
        let conditional = self.everywhere("if").into_iter().flat_map(|directive| directive.inside());
        sets.extend(conditional.filter(|directive| directive.name == "set"));
        let mut found = sets.iter().filter(is);
        let first = found.next()?;
        // A variable that is set twice may be either, and one that is set under a condition may be empty.
        let always = self.everywhere("set").iter().any(|set| std::ptr::eq(*set, *first));
        (always && found.next().is_none()).then_some(first.arg(1))
    }
}
