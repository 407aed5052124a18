# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_maitred_global_optspecs
    string join \n h/help V/version
end

function __fish_maitred_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_maitred_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_maitred_using_subcommand
    set -l cmd (__fish_maitred_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c maitred -n "__fish_maitred_needs_command" -s h -l help -d 'Print help'
complete -c maitred -n "__fish_maitred_needs_command" -s V -l version -d 'Print version'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "serve" -d 'Serve one directory, without a configuration file'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "app" -d 'Serve an application, without a configuration file'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "init" -d 'Write a configuration file for what is found in this directory'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "run" -d 'Run a configuration file in the foreground'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "check" -d 'Check a configuration file: bind nothing, start nothing'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "import" -d 'Turn a configuration of nginx, Apache, Caddy or Unit into one of Maitred'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "status" -d 'Show what a running server is doing'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "top" -d 'Watch what a running server is doing, in the terminal'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "reload" -d 'Make a running server read its configuration again'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "upgrade" -d 'Replace the executable of a running server by the file that is now at its path'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "stop" -d 'Stop a running server, after it has finished its requests'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "pool" -d 'Show a pool of application processes, or change what runs in it'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "upstream" -d 'Show the servers of a pool, or change them while the server runs'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "cache" -d 'Purge responses that a running server keeps, or show what it keeps for a URL'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "man" -d 'Print the manual page, in roff'
complete -c maitred -n "__fish_maitred_using_subcommand serve" -s l -l listen -d 'Address to listen on; ":8080" is all addresses of IPv4, port 0 lets the kernel choose [default: :8080, with --tls :8443]' -r
complete -c maitred -n "__fish_maitred_using_subcommand serve" -s t -l threads -d 'Event-loop threads [default: one per usable CPU]' -r
complete -c maitred -n "__fish_maitred_using_subcommand serve" -s u -l user -d 'Account of the process that serves clients, if root starts it [default: maitred, if that account exists and may list DIR; otherwise root]' -r
complete -c maitred -n "__fish_maitred_using_subcommand serve" -l log -d 'Format of the access log [default: human on a terminal, combined elsewhere]' -r -f -a "human\t'Short lines for a terminal'
combined\t'Combined Log Format'
json\t'One JSON object per line'
off\t'No access log'"
complete -c maitred -n "__fish_maitred_using_subcommand serve" -l tls -d 'Use TLS, with a self-signed certificate for this machine\'s own names that is made at the start'
complete -c maitred -n "__fish_maitred_using_subcommand serve" -l no-listing -d 'Do not list directories that have no index.html'
complete -c maitred -n "__fish_maitred_using_subcommand serve" -l hidden -d 'Also serve names that start with a dot'
complete -c maitred -n "__fish_maitred_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand app" -l php -d 'Serve a PHP application whose files are in this directory, by php-fpm' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand app" -l fpm -d 'The socket of php-fpm [default: one in /run/php]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand app" -s l -l listen -d 'Address to listen on; port 0 lets the kernel choose [default: 127.0.0.1:8080, with --tls 127.0.0.1:8443]' -r
complete -c maitred -n "__fish_maitred_using_subcommand app" -l domain -d 'Serve this name on ports 80 and 443, with an automatic certificate; this agrees to the terms of Let\'s Encrypt' -r
complete -c maitred -n "__fish_maitred_using_subcommand app" -s w -l workers -d 'Processes of the application [default: as many as requests need]' -r
complete -c maitred -n "__fish_maitred_using_subcommand app" -s u -l user -d 'Account of the worker process and of the application, if root starts the server [default: root; with --domain the account maitred]' -r
complete -c maitred -n "__fish_maitred_using_subcommand app" -l tls -d 'Use TLS, with a self-signed certificate for this machine\'s own names that is made at the start'
complete -c maitred -n "__fish_maitred_using_subcommand app" -l watch -d 'For development: replace the processes when source files of this directory change'
complete -c maitred -n "__fish_maitred_using_subcommand app" -l verbose -d 'Show the log of the server, and whole tracebacks of the application'
complete -c maitred -n "__fish_maitred_using_subcommand app" -l print-config -d 'Print the configuration that this stands for, and end'
complete -c maitred -n "__fish_maitred_using_subcommand app" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand init" -s o -l output -d 'The file to write' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand run" -s c -l config -d 'The configuration file' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand check" -s c -l config -d 'The configuration file' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand import" -l root -d 'Look up included files below this directory instead of /: for a copy of another machine\'s files' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand import" -l defined -d 'A name that `httpd -D NAME` would have, for `<IfDefine NAME>`; NAME=VALUE is a variable, for `${NAME}`' -r
complete -c maitred -n "__fish_maitred_using_subcommand import" -l php-fpm -d 'Where php-fpm listens, as `connect` of a pool has it, for scripts that Apache runs itself' -r
complete -c maitred -n "__fish_maitred_using_subcommand import" -l report -d 'Write a page with the whole table, beside both files' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand import" -l compare -d 'Run nginx and the import side by side on loopback, with an application of the test behind both, and report what differs'
complete -c maitred -n "__fish_maitred_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand status" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand status" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand status" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand status" -l json -d 'Print everything as JSON'
complete -c maitred -n "__fish_maitred_using_subcommand status" -s h -l help -d 'Print help'
complete -c maitred -n "__fish_maitred_using_subcommand top" -s i -l interval -d 'Interval between updates, in seconds' -r
complete -c maitred -n "__fish_maitred_using_subcommand top" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand top" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand top" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand top" -l once -d 'Print one frame as text and end; standard output need not be a terminal'
complete -c maitred -n "__fish_maitred_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand reload" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand reload" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand reload" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand reload" -l no-wait -d 'Do not wait for the result; what is refused within a second is reported all the same'
complete -c maitred -n "__fish_maitred_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand upgrade" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand upgrade" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand upgrade" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand upgrade" -l no-wait -d 'Do not wait for the result; what is refused within a second is reported all the same'
complete -c maitred -n "__fish_maitred_using_subcommand upgrade" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand stop" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand stop" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand stop" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand pool" -l canary -d 'With restart: try the new release with this many processes beside the others, and go on or back by itself' -r
complete -c maitred -n "__fish_maitred_using_subcommand pool" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand pool" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand pool" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand pool" -l no-wait -d 'With restart: do not wait until the processes have been replaced'
complete -c maitred -n "__fish_maitred_using_subcommand pool" -l json -d 'Print the pool\'s part of the status as JSON'
complete -c maitred -n "__fish_maitred_using_subcommand pool" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -l backup -d 'With `add`: it gets requests only when all others are out'
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -l json -d 'Print the servers as JSON'
complete -c maitred -n "__fish_maitred_using_subcommand upstream" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l prefix -d 'With `purge`: all that begins with this URL' -r
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l host -d 'With `purge`: all of this host, with its port unless that is the scheme\'s own' -r
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l tag -d 'With `purge`: all that has this tag (Surrogate-Key, Cache-Tag)' -r
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l field -d 'With `show`: a field of the request, where responses differ by it: "Accept-Language: de"' -r
complete -c maitred -n "__fish_maitred_using_subcommand cache" -s c -l config -d 'The server that runs this configuration file [default: maitred.toml if it is there; otherwise the one server that this user has started with `maitred serve`]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand cache" -s a -l admin -d 'The server with this admin address: unix:PATH, or a loopback address and port' -r
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l token -d 'The file with the token that commands by a TCP address take [default: `admin_token` of the configuration file]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l all -d 'With `purge`: everything'
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l soft -d 'With `purge`: leave it as stale instead of removing it'
complete -c maitred -n "__fish_maitred_using_subcommand cache" -l json -d 'Print the answer as JSON'
complete -c maitred -n "__fish_maitred_using_subcommand cache" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand completions" -s h -l help -d 'Print help'
complete -c maitred -n "__fish_maitred_using_subcommand man" -s h -l help -d 'Print help'
