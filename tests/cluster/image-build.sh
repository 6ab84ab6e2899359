#!/usr/bin/env bash
# Build an ordinary Dockerfile without a registry or a daemon, and load the image into the cluster.
#   image-build.sh NAME:TAG CONTEXT DOCKERFILE [buildah's options: --build-arg, --target, ...]
# FROM python:3.11-slim means the base that image-python.sh makes. The machine's certificate
# authorities are there while it builds, so `RUN pip install` works wherever pip works here.
. "$(dirname "$0")/settings.sh"
. "$here/machine.sh"
[ $# -ge 3 ] || fail "usage: image-build.sh NAME:TAG CONTEXT DOCKERFILE [options of buildah build]"
need_root_on_linux "building an image"
name=$("$here/oci_image.py" --full-name "$1") context=$2 dockerfile=$3
shift 3

lock images
need_programs buildah:buildah
buildah() { # in a mount namespace of its own: it leaves its storage mounted
  nice -n 10 unshare --mount buildah --root "$kube/buildah/root" --runroot "$kube/buildah/run" --storage-driver overlay "$@"
}
base=$images/base/python.tar
[ "$base" -nt "$here/image-python.sh" ] || { "$here/image-python.sh" && say "python:3.11-slim"; }
mkdir -p "$kube/buildah"
if [ ! "$kube/buildah/base.pulled" -nt "$base" ]; then
  buildah pull -q "oci-archive:$base" >/dev/null
  touch "$kube/buildah/base.pulled"
fi

authorities=/etc/ssl/certs/ca-certificates.crt
mounts=()
if [ -e $authorities ]; then mounts=(-v "$authorities:$authorities:ro"); fi

buildah build --isolation chroot --pull-never --layers --network host "${mounts[@]}" \
  -t "$name" -f "$dockerfile" "$@" "$context"
say "built $name"
id=$(buildah inspect --type image --format '{{.FromImageID}}' "$name")
if "$here/image-load.sh" --has "$name" "$id"; then
  say "$name was loaded before, and has not changed"
  exit
fi
archive=$kube/buildah/$(tr '/:' '__' <<<"$name").tar
rm -f "$archive"
buildah push -q "$name" "docker-archive:$archive:$name" # uncompressed, which an OCI archive never is
"$here/image-load.sh" "$archive"
say "loaded $name ($(($(stat -c %s "$archive") / 1000000)) MB)"
rm "$archive"
