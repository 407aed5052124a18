//! What all answers of a place have: fields, limits, pages for errors, compression.

use super::context::Scope;
use super::fields;
use super::mounts::Work;
use super::php;
use super::tree::Directive;
use crate::drafts::{How, Route, Target};
use crate::report::Kind;

/// What httpd allows a body by default, since 2.4.54.
const BODY_DEFAULT: u64 = 1 << 30;

impl<'d> Work<'_, 'd> {
    /// What the place says of a route.
    pub(crate) fn decorate(&self, route: &mut Route, scope: &Scope<'_, 'd>) {
        let fields = fields::of(self.cx, scope, self.site.tls);
        route.expires = fields.expires;
        if fields.compress && !matches!(route.target, Target::Redirect { .. } | Target::Respond { .. }) {
            route.compress = Some(Vec::new());
        }
        route.response = fields.response;
        if let Target::Files(files) = &mut route.target
            && !files.tries.last().is_some_and(|item| item.starts_with("pool:"))
        {
            // What caches are told of a file is not said with an error.
            let of_caches = |name: &str| {
                name.eq_ignore_ascii_case("cache-control") || name.eq_ignore_ascii_case("expires")
            };
            for rule in route.response.iter().filter(|rule| rule.how == How::Set && of_caches(&rule.name)) {
                files.headers.push((rule.name.clone(), rule.value.clone()));
            }
            route.response.retain(|rule| rule.how != How::Set || !of_caches(&rule.name));
        }
        if route.goes_to_pool() {
            route.request = fields.request;
            route.body_max = Some(self.body_max(scope));
        }
        for one in scope.all(&["errordocument"]) {
            if let Some((status, path)) = self.error_page(one) {
                route.error_pages.retain(|(known, _)| *known != status);
                route.error_pages.push((status, path));
            }
        }
    }

    fn body_max(&self, scope: &Scope<'_, 'd>) -> u64 {
        let Some(one) = scope.last("limitrequestbody") else { return BODY_DEFAULT };
        match one.arg(0).parse::<u64>() {
            Ok(0) => {
                self.cx.say(one, Kind::Translated, "as much as Maitred can take");
                64 << 30
            }
            Ok(bytes) => {
                self.cx.translated(one);
                bytes
            }
            Err(_) => {
                self.cx.not_possible(one, "this is not a number");
                BODY_DEFAULT
            }
        }
    }

    /// `ErrorDocument`
    fn error_page(&self, one: &Directive) -> Option<(u16, String)> {
        let status = one.arg(0).parse::<u16>().ok().filter(|status| (400..600).contains(status))?;
        let to = one.arg(1);
        let cx = self.cx;
        if to.eq_ignore_ascii_case("default") || to.is_empty() {
            cx.translated(one);
            return None;
        }
        if to.contains("://") {
            cx.say(one, Kind::Worse, "an error is answered with its status, and leads to no other page");
            return None;
        }
        if !to.starts_with('/') {
            cx.say(one, Kind::Worse, "a page for errors is a file: write the text into one");
            return None;
        }
        if to.ends_with(".php") || to.contains(".php?") || to.contains(".cgi") || to.contains(".var") {
            cx.say(one, Kind::Worse, "a page for errors is a file, and not what a script writes");
            return None;
        }
        let root = self.site.root.as_ref().map(|(root, _)| root.trim_end_matches('/').to_owned())?;
        let there = cx.shared.machine.has_directory(&root);
        cx.say(one, Kind::Translated, if there { "" } else { "for when the directory is there" });
        Some((status, to.to_owned()))
    }

    /// The pool that runs the scripts of `DocumentRoot`.
    pub(crate) fn root_pool(&self) -> Option<String> {
        let (root, directive) = self.site.root.as_ref()?;
        let what = super::mounts::What::Files(root.clone());
        let mount = super::mounts::Mount {
            selector: super::selectors::Selector::default(),
            url: "/".into(),
            what,
            directive,
        };
        let ground = super::sections::Ground {
            url: "/".into(),
            directory: Some(root.trim_end_matches('/').to_owned()),
        };
        let all = self.site.all();
        let (sections, _) = super::sections::of(self.cx, &all, self.site.htaccess, &ground);
        php::of(self, &mount, &ground, &sections)?.pool
    }
}
