//! `module` of sites and routes.

use super::super::meaning::Site;
use super::super::module_numbers::modules_of;
use super::super::modules::{MODULES_MAX, ModuleSpec, ModuleUse};
use super::super::reader::Section;
use super::headers::check_request_name;

/// `module`
pub(super) fn of(section: &Section<'_>) -> Vec<ModuleUse> {
    section.section_or_sections("module").iter().filter_map(one).collect()
}

/// Checks that there are no more modules than a process can have.
pub(super) fn check_number(root: &Section<'_>, sites: &[Site]) {
    if modules_of(sites).len() > MODULES_MAX {
        let message = format!("there are more than {MODULES_MAX} modules with different `path` or `config`");
        root.cx.error(&root.span, message);
    }
}

fn one(table: &Section<'_>) -> Option<ModuleUse> {
    let (path, config) = (super::path(table, "path"), table.free("config"));
    let (timeout, body_bytes_max) = (table.time("timeout"), table.number("body_bytes_max").value);
    let names = table.texts("request_fields");
    names.iter().for_each(|name| check_request_name(table, name));
    let request_fields = names.into_iter().map(|name| name.value.to_ascii_lowercase()).collect();
    Some(ModuleUse { module: ModuleSpec { path: path?, config }, timeout, body_bytes_max, request_fields })
}
