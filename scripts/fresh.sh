#!/usr/bin/env bash
# The project as a stranger meets it: a clone of what is committed, an empty home folder, all verbs.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/home"
git clone --quiet "$root" "$folder/checkout"
cd "$folder/checkout"
export HOME="$folder/home"
unset XDG_STATE_HOME XDG_CACHE_HOME VIRTUAL_ENV
make check
make test
make run ONCE=1 PORT=0 </dev/null
