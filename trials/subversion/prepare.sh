# A repository of each kind, and CGI programs, below $1.
data=$1/data
www=$1/www
mkdir "$data/git" "$www/dav" "$www/cgi"
svnadmin create "$data/repository"
printf 'anna:%s\n' "$(openssl passwd -apr1 secret)" >"$data/users"
git -c init.defaultBranch=main init --quiet --bare "$data/git/one.git"
git -C "$data/git/one.git" config http.receivepack true
cat >"$data/cgitrc" <<END
virtual-root=/cgit
css=/cgit-css/cgit.css
enable-http-clone=1
snapshots=tar.gz zip
scan-path=$data/git
END
cat >"$www/cgi/environment" <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\n\n'
env | grep -E '^(SCRIPT_NAME|PATH_INFO|QUERY_STRING|REQUEST_METHOD|CONTENT_TYPE|CONTENT_LENGTH|REMOTE_ADDR|GATEWAY_INTERFACE)=' | sort
wc -c
END
cat >"$www/cgi/status" <<'END'
#!/bin/sh
printf 'Status: 418 Teapot\nX-Own: 1\n\nshort and stout\n'
END
cat >"$www/cgi/elsewhere" <<'END'
#!/bin/sh
printf 'Location: /cgi/environment/path?query\n\n'
END
cat >"$www/cgi/nph-own" <<'END'
#!/bin/sh
printf 'HTTP/1.1 201 Made\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello'
END
cat >"$www/cgi/broken" <<'END'
#!/bin/sh
echo no head
END
chmod +x "$www"/cgi/*
chown --recursive --reference "$www" "$www" "$data"
