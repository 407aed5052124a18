# The configuration and the empty data of a wiki below $2/www. $1: this folder.
www=$2/www
mkdir "$www/conf" "$www/data"
for each in attic cache index locks log media media_attic media_meta meta pages tmp; do
    mkdir "$www/data/$each"
done
cp "$1/prepend.php" "$www/"
cp "$1/local.php" "$1/acl.auth.php" "$www/conf/"
cp /etc/dokuwiki/license.php "$www/conf/"
secret=$(php -r 'echo password_hash("secret", PASSWORD_BCRYPT);')
printf '%s\n' "anna:$secret:Anna:anna@wiki.test:admin,user" >"$www/conf/users.auth.php"
chown --recursive --reference "$www" "$www"
