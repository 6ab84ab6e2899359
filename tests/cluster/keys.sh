# The cluster's certificate authority, one certificate and kubeconfig for each who speaks to the API
# server. Made once and kept with the cluster. Sourced.
# shellcheck shell=bash

make_keys() {
  if [ ! -s "$keys/done" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=pumas-test-ca \
      -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature -keyout "$keys/ca.key" -out "$keys/ca.crt" 2>/dev/null
    openssl ecparam -name prime256v1 -genkey -noout -out "$keys/accounts.key"
    openssl ec -in "$keys/accounts.key" -pubout -out "$keys/accounts.pub" 2>/dev/null
    local cluster_names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
    certificate apiserver /CN=kube-apiserver "DNS:localhost,$cluster_names,IP:127.0.0.1,IP:$node_ip,IP:$services.1"
    certificate apiserver-client /O=system:masters/CN=kube-apiserver-client
    certificate front-proxy /CN=front-proxy
    certificate admin /O=system:masters/CN=admin
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    certificate kubelet "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$node_ip,IP:127.0.0.1"
    certificate proxy /CN=system:kube-proxy
    certificate coredns /CN=system:coredns
    date >"$keys/done"
  fi
  local name
  kubeconfig admin "$admin"
  for name in controller-manager scheduler kubelet proxy coredns; do
    kubeconfig $name "$conf/$name.kubeconfig"
  done
}

certificate() { # NAME SUBJECT [SUBJECT-ALTERNATIVE-NAMES]
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$keys/$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -CA "$keys/ca.crt" -CAkey "$keys/ca.key" -set_serial "0x$(openssl rand -hex 16)" -days 3650 \
      -extfile <(
        echo "keyUsage=critical,digitalSignature,keyEncipherment"
        echo "extendedKeyUsage=clientAuth,serverAuth"
        if [ -n "${3-}" ]; then echo "subjectAltName=$3"; fi
      ) -out "$keys/$1.crt" 2>/dev/null
}

kubeconfig() { # USER FILE
  [ ! -s "$2" ] || return 0
  (
    umask 077
    cat >"$2" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: pumas-test
  cluster: {server: "https://127.0.0.1:$api_port", certificate-authority-data: $(base64 -w0 "$keys/ca.crt")}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 "$keys/$1.crt"), client-key-data: $(base64 -w0 "$keys/$1.key")}
contexts:
- name: pumas-test
  context: {cluster: pumas-test, user: $1}
current-context: pumas-test
YAML
  )
}
