# The cluster's own programs, in $bin: unpacked from $KUBELAB_BIN_XZ where that folder has them,
# else built from the Go module proxy. Sourced.
# shellcheck shell=bash

programs() {
  local name packed link
  mkdir -p "$bin"
  for name in kubelab coredns helm pause; do
    packed=${KUBELAB_BIN_XZ:+$KUBELAB_BIN_XZ/$name.xz}
    if [ -r "$packed" ]; then
      [ "$bin/$name" -nt "$packed" ] || unpack "$packed" "$name"
    elif [ ! -x "$bin/$name" ] || [ -n "$(find "$(source_of $name)" -newer "$bin/$name" -print -quit)" ]; then
      build $name
    fi
  done
  for link in kubectl kubelet kube-apiserver; do ln -sfn kubelab "$bin/$link"; done
}

unpack() { # ARCHIVE NAME
  need_programs xz:xz-utils
  xz -dc "$1" >"$bin/$2.new"
  install_new "$2"
}

install_new() {
  chmod 755 "$bin/$1.new"
  mv "$bin/$1.new" "$bin/$1"
  touch "$bin/$1"
  say "program $1"
}

source_of() { case $1 in kubelab | pause) echo "$here/go/kubernetes" ;; *) echo "$here/go/$1" ;; esac }

build() {
  command -v go >/dev/null ||
    fail "Go 1.25 or newer is needed to build $1; or set KUBELAB_BIN_XZ to a folder that has $1.xz"
  say "building $1 (Kubernetes takes minutes the first time)"
  case $1 in
    kubelab) go_build "$1" ./cmd/kubelab "$(kubernetes_version)" ;;
    pause) go_build "$1" ./cmd/pause "" ;;
    coredns) go_build "$1" . "" ;;
    helm) go_build "$1" helm.sh/helm/v3/cmd/helm \
      "-X helm.sh/helm/v3/internal/version.version=$(pinned helm helm.sh/helm/v3)" ;;
  esac
  install_new "$1"
}

go_build() ( # NAME PACKAGE LINKER-FLAGS
  cd "$(source_of "$1")" || exit
  export GOMODCACHE=$kube/go/modules GOCACHE=$kube/go/build GOFLAGS="-buildvcs=false -modcacherw" CGO_ENABLED=0
  nice -n 10 go build -trimpath -ldflags "-s -w $3" -o "$bin/$1.new" "$2"
)

pinned() { # NAME MODULE: its version in the go.mod
  awk -v module="$2" '{ for (i = 1; i < NF; i++) if ($i == module) { print $(i + 1); exit } }' "$(source_of "$1")/go.mod"
}

# The version that the API server and kubectl tell; Kubernetes' own build sets it in this way.
kubernetes_version() {
  local version place=k8s.io/component-base/version
  version=$(pinned kubelab k8s.io/kubernetes)
  echo "-X $place.gitVersion=$version -X $place.gitMajor=1 -X $place.gitMinor=$(cut -d. -f2 <<<"$version")" \
    "-X $place.gitTreeState=clean"
}
