# fcgiwrap at $1/wrap. nginx may have another account, and has to reach the socket.
umask 0
rm -f "$1/wrap"
exec fcgiwrap -c 4 -s "unix:$1/wrap"
