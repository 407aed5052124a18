# MariaDB on the socket $1/db alone; its files are in $2/db.
cat >"$2/init.sql" <<END
CREATE DATABASE IF NOT EXISTS wordpress CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS wordpress@localhost IDENTIFIED BY 'secret';
GRANT ALL ON wordpress.* TO wordpress@localhost;
END
exec /usr/sbin/mariadbd --no-defaults --user="$(id -un)" --datadir="$2/db" --socket="$1/db" --pid-file="$2/db.pid" \
    --skip-networking --init-file="$2/init.sql" --innodb-buffer-pool-size=16M --innodb-log-file-size=4M
