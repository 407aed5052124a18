//! Files that nginx ships beside `nginx.conf`, for configurations that name them and were copied without them.
//!
//! | file | as in |
//! |---|---|
//! | `mime.types`, `fastcgi_params`, `fastcgi.conf`, `uwsgi_params`, `scgi_params` | nginx 1.22.1, `conf/` |
//! | `proxy_params`, `snippets/fastcgi-php.conf` | Debian 12, package `nginx-common` 1.22.1 |
//! | `/etc/letsencrypt/options-ssl-nginx.conf` | Debian 12, package `python3-certbot-nginx` 2.1.0: certbot keeps it as it is |
//!
//! Only what is in all versions since then is here: Debian's later ones set `HTTP_HOST` as well, which applications get anyway.

use std::fmt::Write as _;

/// Variables that FastCGI, uwsgi and SCGI have in common, with what nginx sets them to.
const COMMON: &str = "QUERY_STRING $query_string; REQUEST_METHOD $request_method; CONTENT_TYPE $content_type; \
                      REQUEST_URI $request_uri; DOCUMENT_ROOT $document_root; SERVER_PROTOCOL $server_protocol; \
                      REQUEST_SCHEME $scheme; HTTPS $https if_not_empty; REMOTE_ADDR $remote_addr; REMOTE_PORT $remote_port; \
                      SERVER_PORT $server_port; SERVER_NAME $server_name";
/// Those of FastCGI alone.
const FASTCGI: &str = "CONTENT_LENGTH $content_length; SCRIPT_NAME $fastcgi_script_name; DOCUMENT_URI $document_uri; \
                       GATEWAY_INTERFACE CGI/1.1; SERVER_SOFTWARE nginx/$nginx_version; SERVER_ADDR $server_addr; \
                       REDIRECT_STATUS 200";
/// Media types, each with the endings of names; by family.
const TYPES: &[(&str, &str)] = &[
    (
        "application",
        "atom+xml atom; java-archive ear jar war; javascript js; json json; mac-binhex40 hqx; msword doc; \
         octet-stream bin deb dll dmg exe img iso msi msm msp; pdf pdf; postscript ai eps ps; rss+xml rss; rtf rtf; \
         vnd.apple.mpegurl m3u8; vnd.google-earth.kml+xml kml; vnd.google-earth.kmz kmz; vnd.ms-excel xls; \
         vnd.ms-fontobject eot; vnd.ms-powerpoint ppt; vnd.oasis.opendocument.graphics odg; \
         vnd.oasis.opendocument.presentation odp; vnd.oasis.opendocument.spreadsheet ods; vnd.oasis.opendocument.text \
         odt; vnd.openxmlformats-officedocument.presentationml.presentation pptx; \
         vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx; \
         vnd.openxmlformats-officedocument.wordprocessingml.document docx; vnd.wap.wmlc wmlc; wasm wasm; \
         x-7z-compressed 7z; x-cocoa cco; x-java-archive-diff jardiff; x-java-jnlp-file jnlp; x-makeself run; x-perl \
         pl pm; x-pilot pdb prc; x-rar-compressed rar; x-redhat-package-manager rpm; x-sea sea; x-shockwave-flash \
         swf; x-stuffit sit; x-tcl tcl tk; x-x509-ca-cert crt der pem; x-xpinstall xpi; xhtml+xml xhtml; xspf+xml \
         xspf; zip zip",
    ),
    ("audio", "midi kar mid midi; mpeg mp3; ogg ogg; x-m4a m4a; x-realaudio ra"),
    ("font", "woff woff; woff2 woff2"),
    (
        "image",
        "avif avif; gif gif; jpeg jpeg jpg; png png; svg+xml svg svgz; tiff tif tiff; vnd.wap.wbmp wbmp; webp webp; \
         x-icon ico; x-jng jng; x-ms-bmp bmp",
    ),
    (
        "text",
        "css css; html htm html shtml; mathml mml; plain txt; vnd.sun.j2me.app-descriptor jad; vnd.wap.wml wml; \
         x-component htc; xml xml",
    ),
    (
        "video",
        "3gpp 3gp 3gpp; mp2t ts; mp4 mp4; mpeg mpeg mpg; quicktime mov; webm webm; x-flv flv; x-m4v m4v; x-mng mng; \
         x-ms-asf asf asx; x-ms-wmv wmv; x-msvideo avi",
    ),
];
/// What stands in `proxy_params`.
const PROXY: &str = "proxy_set_header Host $http_host; proxy_set_header X-Real-IP $remote_addr; \
                     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;";
/// What stands in `snippets/fastcgi-php.conf`.
const PHP: &str = r"fastcgi_split_path_info ^(.+?\.php)(/.*)$; try_files $fastcgi_script_name =404;
    set $path_info $fastcgi_path_info; fastcgi_param PATH_INFO $path_info; fastcgi_index index.php; include fastcgi.conf;";
/// What certbot writes beside certificates.
const CERTBOT: &str = "ssl_session_cache shared:le_nginx_SSL:10m; ssl_session_timeout 1440m; ssl_session_tickets off;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers off;
    ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384\
:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256\
:DHE-RSA-AES256-GCM-SHA384;";

/// Where these files are.
const DIRECTORIES: [&str; 5] = ["", "conf", "/etc/nginx", "/usr/local/nginx/conf", "/usr/local/etc/nginx"];

/// The content of a file of these, by the path that an `include` names.
pub(super) fn text(path: &str) -> Option<String> {
    if path == "/etc/letsencrypt/options-ssl-nginx.conf" {
        return Some(CERTBOT.to_owned());
    }
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == "fastcgi-php.conf" {
        let directory = directory.strip_suffix("snippets")?;
        return DIRECTORIES.contains(&directory.trim_end_matches('/')).then(|| PHP.to_owned());
    }
    if !DIRECTORIES.contains(&directory) {
        return None;
    }
    Some(match name {
        "mime.types" => types(),
        "fastcgi_params" => params("fastcgi_param", &[COMMON, FASTCGI]),
        "fastcgi.conf" => {
            params("fastcgi_param", &["SCRIPT_FILENAME $document_root$fastcgi_script_name", COMMON, FASTCGI])
        }
        "uwsgi_params" => {
            params("uwsgi_param", &[COMMON, "CONTENT_LENGTH $content_length; PATH_INFO $document_uri"])
        }
        "scgi_params" => params("scgi_param", &[COMMON, "DOCUMENT_URI $document_uri; SCGI 1"]),
        "proxy_params" => PROXY.to_owned(),
        _ => return None,
    })
}

fn params(directive: &str, lists: &[&str]) -> String {
    let all = lists.iter().flat_map(|list| list.split("; "));
    all.fold(String::new(), |mut text, one| {
        let _ = writeln!(text, "{directive} {one};");
        text
    })
}

fn types() -> String {
    let mut text = String::from("types {\n");
    for (family, types) in TYPES {
        for one in types.split("; ") {
            let _ = writeln!(text, "{family}/{one};");
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::tree::parse;

    #[test]
    fn only_the_files_that_are_shipped_are_known() {
        for path in
            ["mime.types", "/etc/nginx/fastcgi_params", "snippets/fastcgi-php.conf", "conf/proxy_params"]
        {
            assert!(text(path).is_some(), "{path}");
        }
        let of_certbot =
            parse(&"x".into(), &text("/etc/letsencrypt/options-ssl-nginx.conf").unwrap()).unwrap();
        assert_eq!((of_certbot.len(), of_certbot[5].arg(0).split(':').count()), (6, 8));
        for path in [
            "ssl.conf",
            "options-ssl-nginx.conf",
            "parts/mime.types",
            "/srv/proxy_params",
            "fastcgi-php.conf",
            "mime.types.bak",
        ] {
            assert_eq!(text(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_known_of_a_file_is_what_an_installed_nginx_has() {
        let read = |text: &str| -> Vec<String> {
            let parsed = parse(&"x".into(), text).unwrap();
            let rows = parsed.iter().flat_map(|one| [one].into_iter().chain(one.inside()));
            let flat = rows.filter(|one| one.block.is_none());
            flat.flat_map(|one| match one.name.contains('/') {
                true => one.args.iter().map(|end| format!("{} {end}", one.name)).collect(),
                false => vec![one.shown()],
            })
            .collect()
        };
        for name in ["mime.types", "fastcgi.conf", "uwsgi_params", "scgi_params", "proxy_params"] {
            let Ok(installed) = std::fs::read_to_string(format!("/etc/nginx/{name}")) else { continue };
            let installed = read(&installed);
            // Debian's corrections of security change what `Host` is; the rest of what is known has to be there.
            let missing: Vec<String> = read(&text(name).unwrap())
                .into_iter()
                .filter(|known| !installed.contains(known) && !known.contains("$http_host"))
                .collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
    }
}
