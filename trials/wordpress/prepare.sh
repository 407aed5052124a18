# A site of WordPress below $2/www, from Debian's files, and an empty database in $3. $1: this folder.
www=$2/www
for each in /usr/share/wordpress/*; do
    case ${each##*/} in
        wp-content | wp-config*) ;;
        *) ln -s "$each" "$www/" ;;
    esac
done
mkdir -p "$www/wp-content/uploads"
ln -s /var/lib/wordpress/wp-content/themes "$www/wp-content/themes" 2>/dev/null
ln -s /usr/share/wordpress/wp-content/plugins "$www/wp-content/plugins"
cp "$1/wp-config.php" "$1/prepend.php" "$www/"
# The account that Apache runs PHP with writes uploads and .htaccess.
chown --recursive --no-dereference --reference "$www" "$www"
mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$3/db" --skip-test-db
