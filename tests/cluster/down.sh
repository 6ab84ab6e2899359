#!/usr/bin/env bash
# Remove the cluster that up.sh brought up: processes, containers, network, rules, cgroups, data.
# Programs, images and build caches stay. With names, stop only those processes: down.sh apiserver.
. "$(dirname "$0")/settings.sh"
. "$here/machine.sh"
. "$here/node.sh"

if [ ! -d "$data" ]; then
  echo "no cluster of this checkout is up"
  exit
fi
need_root_on_linux "removing the test cluster"
lock cluster
if [ $# -gt 0 ]; then
  for name; do
    [ -e "$run/$name.pid" ] || fail "no process $name runs"
    stop "$name"
  done
  exit
fi

stop kubelet # first: it would start containers again
for name in gpu-plugin proxy coredns scheduler controller-manager; do stop $name & done
wait
end_containers
for name in containerd mounts apiserver etcd; do stop $name; done

# The pods' cgroups, and their parents where nobody else has pods.
for pod in "$data"/fixed/var/lib/kubelet/pods/*/; do
  find /sys/fs/cgroup -depth -type d -path "*/kubepods*/pod$(basename "$pod")*" -exec rmdir {} + 2>/dev/null || true
done
find /sys/fs/cgroup -depth -type d \( -name kubepods -o -path '*/kubepods/burstable' -o -path '*/kubepods/besteffort' \) \
  -exec rmdir {} + 2>/dev/null || true

# The veths went with the pods' network namespaces.
if ip link show "$bridge" >/dev/null 2>&1; then ip link del "$bridge"; fi
for table in "ip pumas-test" "ip kube-proxy" "ip6 kube-proxy"; do
  # shellcheck disable=SC2086  # family and name
  nft delete table $table 2>/dev/null || true
done

# In iptables, which is everybody's: the chains of pods' host ports and of the kubelet, the rules that
# lead there, and a table that was not there before and has no rule now.
clean_iptables() { # FAMILY TABLE
  local chains rules
  rules=$("$1tables-save" -t "$2" 2>/dev/null) || return 0
  chains=$(grep -oE '^:(KUBE|CNI)-[^ ]+' <<<"$rules" | cut -c2-) || return 0
  {
    echo "*$2"
    grep -E '^-A .* -j (KUBE|CNI)-' <<<"$rules" | grep -vE '^-A (KUBE|CNI)-' | sed 's/^-A/-D/' || true
    sed 's/^/-F /' <<<"$chains"
    sed 's/^/-X /' <<<"$chains"
    echo COMMIT
  } | "$1tables-restore" --noflush
}
drop_if_new_and_empty() { # FAMILY TABLE
  local content
  if grep -qx "table $1 $2" "$run/tables.before"; then return; fi
  content=$(nft list table "$1" "$2" 2>/dev/null) || return 0
  if grep -qvE '^[[:space:]]*(table|chain|type|}|#|$)' <<<"$content"; then return; fi
  nft delete table "$1" "$2"
}
for table in nat filter mangle; do
  for family in ip ip6; do
    if [ -e "$run/tables.before" ]; then
      clean_iptables $family $table
      drop_if_new_and_empty $family $table
    fi
  done
done

if [ -e "$run/sysctl.before" ]; then
  while IFS='=' read -r name value; do echo "$value" >"/proc/sys/${name//.//}"; done <"$run/sysctl.before"
fi
if [ -e "$run/folders.made" ]; then
  while read -r folder; do rmdir "$folder" 2>/dev/null || true; done <"$run/folders.made"
fi
rm -rf "$data"
say "the cluster is gone"
