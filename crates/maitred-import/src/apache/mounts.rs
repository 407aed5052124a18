//! A site of httpd, and what answers for which of its paths: what the parts of the translation share.

use super::context::{Cx, Layer, Variable};
use super::selectors::Selector;
use super::tree::Directive;

/// A `.htaccess` file.
#[derive(Debug)]
pub(crate) struct Htaccess {
    /// The directory, as the configuration names it.
    pub(crate) directory: String,
    /// What stands in it.
    pub(crate) directives: Vec<Directive>,
}

/// A server of httpd, and what is known of it.
pub(crate) struct Site<'d> {
    /// The `<VirtualHost>`, or the first directive of the main server.
    pub(crate) origin: &'d Directive,
    /// What the main server says.
    pub(crate) main: Vec<&'d Directive>,
    /// What the virtual host says; for the main server itself the same.
    pub(crate) own: Vec<&'d Directive>,
    /// All names.
    pub(crate) names: Vec<String>,
    /// Whether connections use TLS.
    pub(crate) tls: bool,
    /// `DocumentRoot`
    pub(crate) root: Option<(String, &'d Directive)>,
    /// The files with rules in the directories of this site.
    pub(crate) htaccess: &'d [Htaccess],
    /// What is below `root`, if that is known.
    pub(crate) files: Option<Vec<(String, bool)>>,
}

/// What answers.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A directory, or a file.
    Files(String),
    /// Another server: its URL.
    Proxy(String),
    /// A redirect.
    Redirect(String, u16),
    /// A fixed status.
    Status(u16),
    /// What stands behind all other servers.
    Others,
}

/// A beginning of URLs, or an expression, and what answers there.
#[derive(Debug, Clone)]
pub(crate) struct Mount<'d> {
    pub(crate) selector: Selector,
    pub(crate) url: String,
    pub(crate) what: What,
    pub(crate) directive: &'d Directive,
}

/// A translation of one site.
pub(crate) struct Work<'c, 'd> {
    pub(crate) cx: &'c Cx<'c>,
    pub(crate) site: &'c Site<'d>,
    pub(crate) base: &'c Layer<'d>,
    pub(crate) variables: Vec<Variable<'d>>,
}

impl<'d> Site<'d> {
    /// The directives of both, the virtual host's last.
    pub(crate) fn all(&self) -> Vec<&'d Directive> {
        match std::ptr::eq(self.main.as_ptr(), self.own.as_ptr()) || self.is_main() {
            true => self.own.clone(),
            false => self.main.iter().chain(&self.own).copied().collect(),
        }
    }

    /// Whether it is no virtual host.
    pub(crate) fn is_main(&self) -> bool {
        self.origin.name != "virtualhost"
    }
}
