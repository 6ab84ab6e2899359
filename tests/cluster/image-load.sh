#!/usr/bin/env bash
# Load an image archive into the cluster: ours, or the kind or k3d cluster that KUBECONFIG names.
. "$(dirname "$0")/settings.sh"
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
