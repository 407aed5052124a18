# The application below $2/www/links, with the account that PHP has. $1: this folder.
links=$2/www/links
mkdir -p "$links/assets" "$links/data" "$links/vendor"
cp "$1/index.php" "$links/"
printf 'body { color: black }\n' >"$links/assets/style.css"
printf '<?php echo "nobody runs this";\n' >"$links/vendor/autoload.php"
printf '<?php echo "another script: ", $_SERVER["SCRIPT_NAME"], " ", $_SERVER["PATH_INFO"] ?? "-", "\\n";\n' >"$2/www/other.php"
chown --recursive --reference "$2/www" "$2/www"
