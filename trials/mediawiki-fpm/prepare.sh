# A wiki with SQLite below $2, from Debian's files: scripts at /w, uploads at /images. $1: this folder.
www=$2/www
ln -s /usr/share/mediawiki "$www/w"
mkdir "$www/images"
php /usr/share/mediawiki/maintenance/install.php --quiet --dbtype sqlite --dbpath "$2/data" --dbname wiki --scriptpath /w \
    --server http://127.0.0.1 --confpath "$2/data" --pass "a long secret of Anna" --skins Vector,MonoBook "Annas Wiki" Anna
mv "$2/data/LocalSettings.php" "$2/settings.php"
sed "s|@www@|$www|" "$1/settings.php" >>"$2/settings.php"
chown --recursive --reference "$2/data" "$www/images" "$2/data"
chmod 644 "$2/settings.php"
