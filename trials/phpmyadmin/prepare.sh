# An empty database in $1; `database.sh` of the trial `wordpress` runs it.
mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$1/db" --skip-test-db
