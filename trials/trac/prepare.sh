# An environment in $2/env, and the file of its users. $1: where Trac's programs are.
"$1/trac-admin" "$2/env" initenv "Annas é" sqlite:db/trac.db
"$1/trac-admin" "$2/env" permission add anna TRAC_ADMIN
for setting in "attachment max_size 30000000" "attachment max_zip_size 60000000" "trac default_date_format iso8601" \
    "trac default_timezone GMT" "trac default_language en" "timeline default_daysback 90"; do
    # Three words.
    # shellcheck disable=SC2086
    "$1/trac-admin" "$2/env" config set $setting
done
for name in anna ben; do
    printf '%s:%s\n' "$name" "$(openssl passwd -apr1 secret)"
done >"$2/users"
