#!/usr/bin/env bash
# Load an image archive into the cluster: ours, or the kind or k3d cluster that KUBECONFIG names.
#   image-load.sh ARCHIVE
#   image-load.sh --has NAME:TAG ID    whether our cluster has just that image under that name
. "$(dirname "$0")/settings.sh"
if [ "${1-}" = --has ]; then
  [ $# = 3 ] || fail "usage: image-load.sh --has NAME:TAG ID"
  if foreign || ! alive containerd; then exit 1; fi
  # An image's id is the digest of its configuration, which its manifest names.
  manifest=$(ctr -a "$socket" -n k8s.io images ls "name==$2" | awk 'NR > 1 {print $3}')
  [ -n "$manifest" ] || exit 1
  ctr -a "$socket" -n k8s.io content get "$manifest" | grep -q "sha256:$3" && exit
  exit 1
fi
[ $# = 1 ] || fail "usage: image-load.sh ARCHIVE"
if foreign; then
  type -P kubectl >/dev/null || fail "KUBECONFIG is set, and kubectl is not on the PATH"
  context=$(command kubectl config current-context)
  case $context in
    kind-*) kind load image-archive --name "${context#kind-}" "$1" ;;
    k3d-*) k3d image import --cluster "${context#k3d-}" "$1" ;;
    *) fail "no way is known to load an image into the cluster $context; push $1 to its registry" ;;
  esac
else
  alive containerd || fail "no cluster is up to load an image into; run: make cluster"
  ctr -a "$socket" -n k8s.io images import "$1" >>"$log/import.log"
fi
