#compdef maitred

autoload -U is-at-least

_maitred() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_maitred_commands" \
"*::: :->maitred" \
&& ret=0
    case $state in
    (maitred)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:maitred-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
'-l+[Address to listen on; "\:8080" is all addresses of IPv4, port 0 lets the kernel choose \[default\: \:8080, with --tls \:8443\]]:ADDR:_default' \
'--listen=[Address to listen on; "\:8080" is all addresses of IPv4, port 0 lets the kernel choose \[default\: \:8080, with --tls \:8443\]]:ADDR:_default' \
'-t+[Event-loop threads \[default\: one per usable CPU\]]:N:_default' \
'--threads=[Event-loop threads \[default\: one per usable CPU\]]:N:_default' \
'-u+[Account of the process that serves clients, if root starts it \[default\: maitred, if that account exists and may list DIR; otherwise root\]]:ACCOUNT:_default' \
'--user=[Account of the process that serves clients, if root starts it \[default\: maitred, if that account exists and may list DIR; otherwise root\]]:ACCOUNT:_default' \
'--log=[Format of the access log \[default\: human on a terminal, combined elsewhere\]]:FORM:((human\:"Short lines for a terminal"
combined\:"Combined Log Format"
json\:"One JSON object per line"
off\:"No access log"))' \
'--tls[Use TLS, with a self-signed certificate for this machine'\''s own names that is made at the start]' \
'--no-listing[Do not list directories that have no index.html]' \
'--hidden[Also serve names that start with a dot]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':dir -- The directory:_files' \
&& ret=0
;;
(app)
_arguments "${_arguments_options[@]}" : \
'--php=[Serve a PHP application whose files are in this directory, by php-fpm]:DIR:_files' \
'--fpm=[The socket of php-fpm \[default\: one in /run/php\]]:SOCKET:_files' \
'(--domain)-l+[Address to listen on; port 0 lets the kernel choose \[default\: 127.0.0.1\:8080, with --tls 127.0.0.1\:8443\]]:ADDR:_default' \
'(--domain)--listen=[Address to listen on; port 0 lets the kernel choose \[default\: 127.0.0.1\:8080, with --tls 127.0.0.1\:8443\]]:ADDR:_default' \
'*--domain=[Serve this name on ports 80 and 443, with an automatic certificate; this agrees to the terms of Let'\''s Encrypt]:NAME:_default' \
'-w+[Processes of the application \[default\: as many as requests need\]]:N:_default' \
'--workers=[Processes of the application \[default\: as many as requests need\]]:N:_default' \
'-u+[Account of the worker process and of the application, if root starts the server \[default\: root; with --domain the account maitred\]]:ACCOUNT:_default' \
'--user=[Account of the worker process and of the application, if root starts the server \[default\: root; with --domain the account maitred\]]:ACCOUNT:_default' \
'(--domain --print-config)--tls[Use TLS, with a self-signed certificate for this machine'\''s own names that is made at the start]' \
'(--domain --print-config)--watch[For development\: replace the processes when source files of this directory change]' \
'--verbose[Show the log of the server, and whole tracebacks of the application]' \
'--print-config[Print the configuration that this stands for, and end]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::application -- module\:callable, module\:factory(), manage.py, package.json, a .js file, a program, or a directory:_default' \
&& ret=0
;;
(init)
_arguments "${_arguments_options[@]}" : \
'-o+[The file to write]:FILE:_files' \
'--output=[The file to write]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(run)
_arguments "${_arguments_options[@]}" : \
'-c+[The configuration file]:FILE:_files' \
'--config=[The configuration file]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'-c+[The configuration file]:FILE:_files' \
'--config=[The configuration file]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(import)
_arguments "${_arguments_options[@]}" : \
'--root=[Look up included files below this directory instead of /\: for a copy of another machine'\''s files]:DIR:_files' \
'*--defined=[A name that \`httpd -D NAME\` would have, for \`<IfDefine NAME>\`; NAME=VALUE is a variable, for \`\${NAME}\`]:NAME:_default' \
'--php-fpm=[Where php-fpm listens, as \`connect\` of a pool has it, for scripts that Apache runs itself]:URL:_default' \
'--report=[Write a page with the whole table, beside both files]:FILE.html:_files' \
'--compare[Run nginx and the import side by side on loopback, with an application of the test behind both, and report what differs]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':server -- The server that the configuration is for:((nginx\:"nginx.conf, or parts of it"
unit\:"The JSON of NGINX Unit, as \`curl --unix-socket SOCKET http\://localhost/config\` prints it"
caddy\:"A Caddyfile"
apache\:"httpd.conf or apache2.conf of Apache httpd, parts of them, or a .htaccess file"))' \
'*::files -- The files\: whole configurations, or parts such as a file of sites-available; `include` is followed:_files' \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--json[Print everything as JSON]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(top)
_arguments "${_arguments_options[@]}" : \
'-i+[Interval between updates, in seconds]:SECONDS:_default' \
'--interval=[Interval between updates, in seconds]:SECONDS:_default' \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--once[Print one frame as text and end; standard output need not be a terminal]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(reload)
_arguments "${_arguments_options[@]}" : \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--no-wait[Do not wait for the result; what is refused within a second is reported all the same]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(upgrade)
_arguments "${_arguments_options[@]}" : \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--no-wait[Do not wait for the result; what is refused within a second is reported all the same]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(stop)
_arguments "${_arguments_options[@]}" : \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(pool)
_arguments "${_arguments_options[@]}" : \
'()--canary=[With restart\: try the new release with this many processes beside the others, and go on or back by itself]:N:_default' \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--no-wait[With restart\: do not wait until the processes have been replaced]' \
'()--json[Print the pool'\''s part of the status as JSON]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':name -- The pool, as in the configuration\: \[pool.NAME\]:_default' \
'::action -- What to do:((restart\:"Replace all its processes, each by one that is ready"
drain\:"End one process, after it has finished its requests"
scale\:"Keep this many processes"))' \
'::number -- The slot to drain, from 0 as `maitred pool NAME` counts them; or how many processes to keep:_default' \
&& ret=0
;;
(upstream)
_arguments "${_arguments_options[@]}" : \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--backup[With \`add\`\: it gets requests only when all others are out]' \
'--json[Print the servers as JSON]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':name -- The pool, as in the configuration\: \[pool.NAME\]:_default' \
'::action -- What to do \[default\: list\]:((list\:"Show them"
add\:"One more"
drain\:"No new requests for this one"
remove\:"Take one out"
weight\:"Give one another share of the requests"
reset\:"Undo what was commanded"))' \
'::address -- The server\: an IP address with a port, or unix\:PATH:_default' \
'::weight -- Its weight, 1 to 1000; for `weight` and `add`:_default' \
&& ret=0
;;
(cache)
_arguments "${_arguments_options[@]}" : \
'*--prefix=[With \`purge\`\: all that begins with this URL]:URL:_default' \
'*--host=[With \`purge\`\: all of this host, with its port unless that is the scheme'\''s own]:HOST:_default' \
'*--tag=[With \`purge\`\: all that has this tag (Surrogate-Key, Cache-Tag)]:TAG:_default' \
'*--field=[With \`show\`\: a field of the request, where responses differ by it\: "Accept-Language\: de"]:FIELD:_default' \
'(-a --admin)-c+[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'(-a --admin)--config=[The server that runs this configuration file \[default\: maitred.toml if it is there; otherwise the one server that this user has started with \`maitred serve\`\]]:FILE:_files' \
'-a+[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--admin=[The server with this admin address\: unix\:PATH, or a loopback address and port]:ADDR:_default' \
'--token=[The file with the token that commands by a TCP address take \[default\: \`admin_token\` of the configuration file\]]:FILE:_files' \
'--all[With \`purge\`\: everything]' \
'--soft[With \`purge\`\: leave it as stale instead of removing it]' \
'--json[Print the answer as JSON]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':action -- What to do:((purge\:"Remove them, or make them stale"
show\:"Show what is kept for a URL"))' \
'*::urls -- Whole URLs, as clients ask for them:_default' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':shell -- The shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_maitred_commands] )) ||
_maitred_commands() {
    local commands; commands=(
'serve:Serve one directory, without a configuration file' \
'app:Serve an application, without a configuration file' \
'init:Write a configuration file for what is found in this directory' \
'run:Run a configuration file in the foreground' \
'check:Check a configuration file\: bind nothing, start nothing' \
'import:Turn a configuration of nginx, Apache, Caddy or Unit into one of Maitred' \
'status:Show what a running server is doing' \
'top:Watch what a running server is doing, in the terminal' \
'reload:Make a running server read its configuration again' \
'upgrade:Replace the executable of a running server by the file that is now at its path' \
'stop:Stop a running server, after it has finished its requests' \
'pool:Show a pool of application processes, or change what runs in it' \
'upstream:Show the servers of a pool, or change them while the server runs' \
'cache:Purge responses that a running server keeps, or show what it keeps for a URL' \
'completions:Print the completion script of a shell' \
'man:Print the manual page, in roff' \
    )
    _describe -t commands 'maitred commands' commands "$@"
}
(( $+functions[_maitred__subcmd__app_commands] )) ||
_maitred__subcmd__app_commands() {
    local commands; commands=()
    _describe -t commands 'maitred app commands' commands "$@"
}
(( $+functions[_maitred__subcmd__cache_commands] )) ||
_maitred__subcmd__cache_commands() {
    local commands; commands=()
    _describe -t commands 'maitred cache commands' commands "$@"
}
(( $+functions[_maitred__subcmd__check_commands] )) ||
_maitred__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'maitred check commands' commands "$@"
}
(( $+functions[_maitred__subcmd__completions_commands] )) ||
_maitred__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'maitred completions commands' commands "$@"
}
(( $+functions[_maitred__subcmd__import_commands] )) ||
_maitred__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'maitred import commands' commands "$@"
}
(( $+functions[_maitred__subcmd__init_commands] )) ||
_maitred__subcmd__init_commands() {
    local commands; commands=()
    _describe -t commands 'maitred init commands' commands "$@"
}
(( $+functions[_maitred__subcmd__man_commands] )) ||
_maitred__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'maitred man commands' commands "$@"
}
(( $+functions[_maitred__subcmd__pool_commands] )) ||
_maitred__subcmd__pool_commands() {
    local commands; commands=()
    _describe -t commands 'maitred pool commands' commands "$@"
}
(( $+functions[_maitred__subcmd__reload_commands] )) ||
_maitred__subcmd__reload_commands() {
    local commands; commands=()
    _describe -t commands 'maitred reload commands' commands "$@"
}
(( $+functions[_maitred__subcmd__run_commands] )) ||
_maitred__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'maitred run commands' commands "$@"
}
(( $+functions[_maitred__subcmd__serve_commands] )) ||
_maitred__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'maitred serve commands' commands "$@"
}
(( $+functions[_maitred__subcmd__status_commands] )) ||
_maitred__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'maitred status commands' commands "$@"
}
(( $+functions[_maitred__subcmd__stop_commands] )) ||
_maitred__subcmd__stop_commands() {
    local commands; commands=()
    _describe -t commands 'maitred stop commands' commands "$@"
}
(( $+functions[_maitred__subcmd__top_commands] )) ||
_maitred__subcmd__top_commands() {
    local commands; commands=()
    _describe -t commands 'maitred top commands' commands "$@"
}
(( $+functions[_maitred__subcmd__upgrade_commands] )) ||
_maitred__subcmd__upgrade_commands() {
    local commands; commands=()
    _describe -t commands 'maitred upgrade commands' commands "$@"
}
(( $+functions[_maitred__subcmd__upstream_commands] )) ||
_maitred__subcmd__upstream_commands() {
    local commands; commands=()
    _describe -t commands 'maitred upstream commands' commands "$@"
}

if [ "$funcstack[1]" = "_maitred" ]; then
    _maitred "$@"
else
    compdef _maitred maitred
fi
