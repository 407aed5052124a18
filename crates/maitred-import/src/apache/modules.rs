//! Which modules of httpd count as there, for `<IfModule>`.

use super::tree::Directive;

/// Modules whose directives have a counterpart here, or that only say how httpd itself runs. Without any `LoadModule` in
/// the files they count as loaded, since Debian and others load them or the site needs them.
const KNOWN: &str = "core so http mpm_event mpm_worker mpm_prefork unixd log_config logio version watchdog \
    access_compat alias auth_basic authn_core authn_file authz_core authz_groupfile authz_host authz_user \
                 autoindex deflate dir env \
    expires filter headers mime negotiation proxy proxy_balancer proxy_fcgi proxy_http proxy_http2 \
                 proxy_wstunnel \
    lbmethod_byrequests lbmethod_bybusyness remoteip reqtimeout rewrite setenvif slotmem_shm socache_shmcb \
                 ssl md status brotli \
    http2 macro";

/// What httpd has without `LoadModule`: Debian builds these in.
const BUILT_IN: &str = "core so http unixd log_config logio version watchdog";

/// Whether a module is there. `name` is as `<IfModule>` has it: `mod_rewrite.c` or `rewrite_module`.
pub(crate) fn is_there(name: &str, loaded: &[String]) -> bool {
    let name = short(name);
    let among = |list: &str| list.split_whitespace().any(|known| known == name);
    match loaded.is_empty() {
        true => among(KNOWN),
        false => among(BUILT_IN) || loaded.iter().any(|module| short(module) == name),
    }
}

/// Whether a module runs PHP within httpd.
pub(crate) fn is_php(name: &str) -> bool {
    let name = short(name);
    name.starts_with("php") || name == "lsapi"
}

/// Whether some line says that PHP runs in another process: then httpd has no module for it.
pub(crate) fn runs_php_outside(all: &[Directive]) -> bool {
    let fastcgi = |word: &String| word.contains("fcgi://");
    let handler = |one: &Directive| {
        one.is(&["sethandler", "addhandler", "proxypassmatch"]) && one.args.iter().any(fastcgi)
    };
    all.iter().any(|one| handler(one) || runs_php_outside(one.inside()))
}

/// `rewrite` of `mod_rewrite.c` and `rewrite_module`.
pub(crate) fn short(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".c").unwrap_or(&name);
    let name = name.strip_suffix("_module").unwrap_or(name);
    name.strip_prefix("mod_").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_spellings() {
        for name in ["mod_rewrite.c", "rewrite_module", "MOD_REWRITE.C"] {
            assert!(is_there(name, &[]), "{name}");
            assert!(is_there(name, &["rewrite_module".into()]) && !is_there(name, &["ssl_module".into()]));
        }
        assert!(!is_there("mod_security2.c", &[]) && is_there("mod_so.c", &["ssl_module".into()]));
    }
}
