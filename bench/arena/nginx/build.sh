#!/bin/bash
# Builds the benchmark's module for the nginx of this system: build.sh SOURCE SCRATCH. SOURCE is this directory, and
# SCRATCH/objs/ngx_http_arena_module.so is the module. Debian's package nginx-dev has nginx's sources with the flags of its build.
set -euo pipefail
source=$1
scratch=$2
sources=/usr/share/nginx/src
if ! [ -x "$sources/configure" ]; then
    echo "no $sources: apt-get install nginx-dev"
    exit 1
fi
rm -rf "$scratch"
cp -r "$sources" "$scratch"
cd "$scratch"
# nginx accepts a module only if it was built with the same flags.
. ./conf_flags
./configure "${NGX_CONF_FLAGS[@]}" --with-cc-opt='-O2 -Wno-error' --add-dynamic-module="$source"
make -f objs/Makefile modules
