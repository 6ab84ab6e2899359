#!/usr/bin/env bash
# The base image of an ordinary Dockerfile, without a registry: Python 3.11 and pip out of Debian 12's
# packages, under the name of the usual one, python:3.11-slim. It has the libraries of llama.cpp too
# (libgomp, libstdc++), so that building the worker's image needs no Debian mirror.
. "$(dirname "$0")/settings.sh"
. "$here/machine.sh"
grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release ||
  fail "python:3.11-slim can be made on Debian 12 (bookworm) only; elsewhere give another base: --build-arg BASE=..."
need_programs mmdebstrap:mmdebstrap python3:python3
mkdir -p "$images/base"
mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | sort -u | head -n 1)
[ -n "$mirror" ] || fail "apt-get has no list of packages; run: apt-get update"
folder=$(mktemp -d -p "$kube")
trap 'rm -rf "$folder"' EXIT
nice -n 10 mmdebstrap --quiet --variant=essential --include=python3,python3-pip,ca-certificates,libgomp1,libstdc++6 \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$folder/root" "$mirror"
cd "$folder/root" || exit
# As the usual image has it: plain names, and pip may install beside the system's packages.
ln -s /usr/bin/python3 usr/local/bin/python
ln -s /usr/bin/python3 usr/local/bin/python3
ln -s /usr/bin/pip3 usr/local/bin/pip
rm -f usr/lib/python3*/EXTERNALLY-MANAGED
rm -rf usr/share/man/* usr/share/doc/* var/cache/apt/* var/lib/apt/lists/* dev/* proc/* sys/* run/*
find . -name __pycache__ -type d -prune -exec rm -rf {} +
"$here/oci_image.py" --output "$images/base/python.tar" --name python:3.11-slim --root . \
  --env LANG=C.UTF-8 --env PIP_BREAK_SYSTEM_PACKAGES=1 --env PIP_ROOT_USER_ACTION=ignore --cmd python3
