# What all scripts of the test cluster share: folders, addresses, and how its processes are known.
# shellcheck shell=bash disable=SC2034  # read by the scripts that source this one
set -euo pipefail
umask 022
PATH=$PATH:/usr/sbin:/sbin

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kube=$(cd "$here/../.." && pwd)/.cache/kube
bin=$kube/bin       # programs; kept when the cluster goes
images=$kube/images # archives of what every cluster has; kept
data=$kube/data     # the cluster itself: removed with it
run=$data/run log=$data/log conf=$data/conf keys=$data/keys
socket=$run/containerd.sock
admin=$data/admin.kubeconfig

node=node0
bridge=pumas0
pods=10.244.0     # a /24; .1 is the bridge and so the node, which then needs nothing of the machine's own network
services=10.96.0  # a /24; .1 is the API server
node_ip=$pods.1
api_port=6443 etcd_port=23790 kubelet_port=10250
gpus=${KUBELAB_GPUS:-2}

fail() {
  echo "cluster: $*" >&2
  exit 1
}

started_at=${EPOCHREALTIME/./}
say() { # the time since the start, and what is done by then
  local ms=$(((${EPOCHREALTIME/./} - started_at) / 1000))
  printf '%4d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$*"
}

# Its cache of what the API server offers goes with the cluster: the next one has the same address.
kubectl() { KUBECONFIG=$admin KUBECACHEDIR=$data/kubectl "$bin/kubelab" kubectl "$@"; }

# True where KUBECONFIG names a cluster that is not the one of these scripts.
foreign() {
  [ -n "${KUBECONFIG-}" ] && [ "$KUBECONFIG" != "$admin" ] && ! [ "$KUBECONFIG" -ef "$admin" ]
}

# One at a time: two test processes may bring the cluster up at once.
lock() {
  mkdir -p "$kube"
  exec 9>"$kube/$1.lock"
  flock 9
}

# FILE: its content from standard input; untouched where it is so already. (kube-proxy ends when its
# configuration file is written, even with the same content.)
put() {
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

# A process is known by its id and its start time, so that an id used again is not taken for it.
# A zombie counts as gone: its parent may take seconds to reap it.
birth() { awk '{sub(/.*\) /, ""); if ($1 != "Z") print $20}' "/proc/$1/stat" 2>/dev/null; }
pid_of() { cut -d' ' -f1 "$run/$1.pid"; }
alive() {
  local pid born
  [ -r "$run/$1.pid" ] && read -r pid born <"$run/$1.pid" && [ "$(birth "$pid")" = "$born" ]
}
start() { # NAME COMMAND...: in a session of its own, unless it runs
  local name=$1
  shift
  alive "$name" && return
  setsid "$@" >>"$log/$name.log" 2>&1 </dev/null 9>&- &
  echo "$! $(birth $!)" >"$run/$name.pid"
}
stop() { # NAME: by SIGTERM, after 5 s by SIGKILL
  local pid tries
  if alive "$1"; then
    pid=$(pid_of "$1")
    kill "$pid" 2>/dev/null || true
    for ((tries = 0; tries < 100; tries++)); do
      alive "$1" || break
      sleep 0.05
    done
    if alive "$1"; then kill -9 "$pid" || true; fi
  fi
  rm -f "$run/$1.pid"
}
await() { # NAME SECONDS COMMAND...: until the command succeeds, while the process runs
  local name=$1 seconds=$2 end=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    alive "$name" || fail "$name ended; the end of its log: $(tail -n 1 "$log/$name.log")"
    [ $SECONDS -lt $end ] || fail "$name was not ready within $seconds s; its log is $log/$name.log"
    sleep 0.1
  done
}
