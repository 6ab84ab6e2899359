#!/usr/bin/env bash
# Bring up a single-node Kubernetes on this machine, with fake GPUs. Run again, it starts only what
# does not run. Where KUBECONFIG names another cluster, that one is used and nothing is brought up.
. "$(dirname "$0")/settings.sh"
. "$here/machine.sh"
. "$here/programs.sh"
. "$here/keys.sh"
. "$here/control_plane.sh"
. "$here/node.sh"

if foreign; then
  type -P kubectl >/dev/null || fail "KUBECONFIG is set, and kubectl is not on the PATH"
  command kubectl --request-timeout=10s get --raw /readyz >/dev/null 2>&1 ||
    fail "the cluster that KUBECONFIG names does not answer"
  echo "the cluster that KUBECONFIG names answers; nothing is brought up"
  echo "export KUBECONFIG=$KUBECONFIG"
  exit
fi

need_root_on_linux "the test cluster"
[ ${#socket} -le 100 ] || fail "the checkout's path is too long for a socket in it (by $((${#socket} - 100)) characters)"
lock cluster
need_programs containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins nft:nftables \
  iptables:iptables conntrack:conntrack socat:socat ethtool:ethtool modprobe:kmod openssl:openssl ip:iproute2 curl:curl python3:python3

free() { # PORT NAME
  alive "$2" || [ -z "$(ss -ltnH "sport = :$1")" ] ||
    fail "port $1 is taken: another cluster, or another checkout's, runs on this machine"
}
free "$etcd_port" etcd
free "$api_port" apiserver
free "$kubelet_port" kubelet

programs
for image in pause busybox; do
  [ -s "$images/$image.tar" ] || "$here/image-$image.sh"
done

mkdir -p "$run" "$log" "$conf" "$keys"
make_keys
start_etcd
start_network
start_apiserver
start_containerd
import_images
say "containerd, with its first images"
await apiserver 90 kubectl get --raw /readyz
say "API server"
start_controllers
start_kubelet
start_proxy
start_dns
start_gpus
await kubelet 90 node_ready
say "node, with $gpus GPUs"
await coredns 30 curl -sf -m 1 http://127.0.0.1:8181/ready
await controller-manager 60 kubectl -n default get serviceaccount default # no pod can be made before
say "ready"
type -P kubectl helm >/dev/null || echo "export PATH=$bin:\$PATH"
echo "export KUBECONFIG=$admin"
