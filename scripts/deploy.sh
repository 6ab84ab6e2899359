#!/usr/bin/env bash
# Build both images, load them into the current cluster and install the chart with its defaults, or
# upgrade it: release `pumas`, namespace `pumas-system`. Options go to helm: deploy.sh --set ...
#
# The images keep the tag that the chart's values name, so an image's id stands in an annotation of
# the pods: they are replaced when what is in the image has changed, and only then, and Helm waits for
# them. Serving pods are not; a new one has the new image.
# shellcheck source-path=SCRIPTDIR source=../tests/cluster/settings.sh
. "$(dirname "$0")/../tests/cluster/settings.sh"
root=$(cd "$here/../.." && pwd)
release=pumas namespace=pumas-system
chart=$root/charts/pumas

if foreign; then
  for program in kubectl helm; do
    type -P $program >/dev/null || fail "KUBECONFIG is set, and $program is not on the PATH"
  done
  helm=helm kubectl=kubectl
else
  { alive apiserver && alive kubelet; } || fail "no cluster is up to install into; run: make cluster"
  export KUBECONFIG=$admin KUBECACHEDIR=$data/kubectl
  helm=$bin/helm kubectl=$bin/kubectl
fi
lock deploy

build() { # NAME DOCKERFILE [OPTION...]: the image of that name in the chart's values
  local name=$1 dockerfile=$2 log=$kube/build-${1#localhost/}.log
  shift 2
  log=${log%%:*}.log
  say "building $name (minutes the first time; how it goes is in .cache/kube/${log##*/})"
  "$here/image-build.sh" "$name" "$root" "$root/$dockerfile" --iidfile "$kube/image-id" "$@" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "$name could not be built and loaded"
  }
  image_id=$(cat "$kube/image-id")
}

default() { sed -n "s/^$1: //p" "$chart/values.yaml"; }

mkdir -p "$kube"
build "$(default workerImage)" server/Dockerfile --target cpu
build "$(default image)" operator/Dockerfile
annotation="{\"serving.pumas.dev/image\": \"$image_id\"}"
say "installing the chart, and waiting for its pods"
"$helm" upgrade --install "$release" "$chart" --namespace "$namespace" --create-namespace --wait --timeout 4m \
  --set-json "operator.podAnnotations=$annotation" --set-json "router.podAnnotations=$annotation" "$@" \
  >"$kube/install.log" 2>&1 || {
  tail -n 3 "$kube/install.log" >&2
  "$kubectl" --namespace "$namespace" get pods >&2 || true
  fail "the chart could not be installed"
}
say "installed"
echo
sed -n '/^NOTES:/,$p' "$kube/install.log" | tail -n +2
