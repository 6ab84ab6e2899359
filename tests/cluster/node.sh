# The node: its network, containerd, kubelet, kube-proxy, CoreDNS and the GPU plugin. Sourced.
# shellcheck shell=bash

# What is changed on the machine is noted first, for down.sh to put back.
note_machine() {
  if [ ! -e "$run/tables.before" ]; then nft list tables >"$run/tables.before"; fi
  local name
  for name in net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables fs.inotify.max_user_instances \
    vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops; do # the last four: the kubelet
    grep -q "^$name=" "$run/sysctl.before" 2>/dev/null ||
      echo "$name=$(cat "/proc/sys/${name//.//}")" >>"$run/sysctl.before"
  done
}

start_network() {
  modprobe -qa br_netfilter overlay || true # built into some kernels, and then no module
  [ -e /proc/sys/net/bridge ] || fail "the kernel has no br_netfilter, without which Services do not work between pods"
  note_machine
  echo 1 >/proc/sys/net/ipv4/ip_forward
  echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
  echo 8192 >/proc/sys/fs/inotify/max_user_instances
  ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge
  ip addr replace "$node_ip/24" dev "$bridge"
  ip link set "$bridge" up
  # A Service's address never leaves the machine, not even while kube-proxy has no rule for it.
  ip route replace "$services.0/24" dev "$bridge" src "$node_ip"
  nft -f - <<NFT
table ip pumas-test
delete table ip pumas-test
table ip pumas-test {
  chain out { type nat hook postrouting priority 100; policy accept;
    ip saddr $pods.0/24 ip daddr != $pods.0/24 masquerade
  }
}
NFT
}

start_containerd() {
  local folder binds=() path
  put "$conf/containerd.toml" <<TOML
version = 2
root = "$data/containerd"
state = "$run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "$socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$data/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE no process can lower its oom_score_adj, which every sandbox asks for.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$conf/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
TOML
  mkdir -p "$conf/cni"
  put "$conf/cni/10-pumas.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pumas", "plugins": [
  {"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$data/cni/addresses",
            "ranges": [[{"subnet": "$pods.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
  # The node lives in a mount namespace of its own: no mount outlives it, and what has a fixed path
  # in its programs is a folder of $data in there. A new namespace means that no container is left.
  if ! alive mounts; then
    end_containers
    rm -rf "$run/mounts.ready" "$run/containerd" "$run/fixed"
  fi
  for path in /var/lib/kubelet /var/lib/cni /run/containerd /var/log/containers; do
    case $path in /run/*) folder=$run/fixed ;; *) folder=$data/fixed ;; esac
    if [ ! -d "$path" ]; then
      mkdir -p "$path"
      echo "$path" >>"$run/folders.made"
    fi
    mkdir -p "$folder$path"
    binds+=("$folder$path" "$path")
  done
  start mounts unshare --mount --propagation shared sh -c '
    ready=$1; shift
    while [ $# -gt 0 ]; do mount --bind "$1" "$2" || exit 1; shift 2; done
    touch "$ready"; exec sleep infinity' mounts "$run/mounts.ready" "${binds[@]}"
  await mounts 10 test -e "$run/mounts.ready"
  start containerd $(inside) containerd --config "$conf/containerd.toml"
  await containerd 30 ctr -a "$socket" version
}

inside() { echo "nsenter -t $(pid_of mounts) -m --"; }

# Every process in a cgroup of a pod of ours, and the shims that hold them.
end_containers() {
  local pod tries found process line
  for ((tries = 0; tries < 50; tries++)); do
    found=$(for pod in "$data"/fixed/var/lib/kubelet/pods/*/; do
      find /sys/fs/cgroup -path "*/kubepods*/pod$(basename "$pod")/*" -name cgroup.procs -exec cat {} + 2>/dev/null || true
    done | sort -un)
    [ -n "$found" ] || break
    # shellcheck disable=SC2086  # a list of ids
    kill -9 $found 2>/dev/null || true
    sleep 0.1
  done
  for process in /proc/[0-9]*; do
    line=$({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null) || continue
    case $line in *containerd-shim*" -address $socket "*) kill -9 "${process#/proc/}" 2>/dev/null || true ;; esac
  done
}

import_images() {
  local archive stamp
  for archive in "$images"/*.tar; do
    stamp=$data/containerd/imported-$(basename "$archive")
    [ "$stamp" -nt "$archive" ] || {
      ctr -a "$socket" -n k8s.io images import "$archive" >>"$log/import.log"
      touch "$stamp"
    }
  done
}

start_kubelet() {
  sed '/^#/d' /etc/resolv.conf | put "$conf/resolv.conf"
  put "$conf/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_ip
port: $kubelet_port
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$keys/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: "$keys/kubelet.crt"
tlsPrivateKeyFile: "$keys/kubelet.key"
containerRuntimeEndpoint: "unix://$socket"
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
clusterDomain: cluster.local
clusterDNS: ["$node_ip"]
resolvConf: "$conf/resolv.conf"
podLogsDir: "$data/pod-logs"
volumePluginDir: "$data/volume-plugins"
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
eventRecordQPS: 50
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 20
fileCheckFrequency: 5s
YAML
  start kubelet $(inside) "$bin/kubelab" kubelet --config="$conf/kubelet.yaml" \
    --kubeconfig="$conf/kubelet.kubeconfig" --hostname-override="$node" --node-ip="$node_ip"
}

start_proxy() {
  put "$conf/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: $pods.0/24
hostnameOverride: $node
clientConnection: {kubeconfig: "$conf/proxy.kubeconfig"}
bindAddress: 0.0.0.0
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}  # the machine's stay as they are
YAML
  start proxy "$bin/kubelab" kube-proxy --config="$conf/proxy.yaml"
}

start_dns() {
  put "$conf/Corefile" <<COREFILE
.:53 {
  bind $node_ip
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $conf/coredns.kubeconfig
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
    ttl 5
  }
  forward . $conf/resolv.conf
  cache 5
  loadbalance
}
COREFILE
  alive coredns || kubectl apply -f "$here/coredns.yaml" >/dev/null
  start coredns "$bin/coredns" "$conf/Corefile"
}

start_gpus() {
  if [ "$(cat "$run/gpus" 2>/dev/null)" != "$gpus" ]; then stop gpu-plugin; fi
  echo "$gpus" >"$run/gpus"
  start gpu-plugin $(inside) "$bin/kubelab" gpu-plugin -count "$gpus" -unhealthy "$data/gpu-unhealthy"
}

# Ready by the word of the kubelet that runs now, with the GPUs: an earlier one's word stays for a while.
node_ready() {
  local ready heartbeat advertised
  read -r ready heartbeat advertised < <(kubectl get node "$node" -o jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end} {.status.allocatable.nvidia\.com/gpu}{"\n"}')
  [ "$ready" = True ] && [ "$advertised" = "$gpus" ] && [ "$(date -d "$heartbeat" +%s)" -ge "$(stat -c %Y "$run/kubelet.pid")" ]
}
