# Two empty repositories below $1/data, and one user who may push.
printf 'anna:%s\n' "$(openssl passwd -6 secret)" >"$1/users"
for name in one "a b+c é%"; do
    git -c init.defaultBranch=main init --quiet --bare "$1/data/$name.git"
    git -C "$1/data/$name.git" config http.receivepack true
    # So that a pack is the same each time.
    git -C "$1/data/$name.git" config pack.threads 1
done
# fcgiwrap has the account of whoever runs this.
chown --recursive "$(id -u)" "$1/data"
