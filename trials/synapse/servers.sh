# Both servers. $1: their interpreter; $2: where their configurations are.
"$1" -m synapse.app.homeserver -c "$2/two.yaml" &
exec "$1" -m synapse.app.homeserver -c "$2/one.yaml"
