# etcd, the API server, the controllers and the scheduler, each started unless it runs. Sourced.
# shellcheck shell=bash

start_etcd() {
  local clients=http://127.0.0.1:$etcd_port peers=http://127.0.0.1:$((etcd_port + 1))
  start etcd "$bin/kubelab" etcd --name=e0 --data-dir="$data/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls="$clients" --advertise-client-urls="$clients" \
    --listen-peer-urls="$peers" --initial-advertise-peer-urls="$peers" --initial-cluster="e0=$peers"
}

start_apiserver() {
  # The log of who asked for what: it shows that each rule of a role is used and none is missing.
  # Only service accounts outside kube-system are written, so it stays small.
  put "$conf/audit.yaml" <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
YAML
  start apiserver "$bin/kubelab" kube-apiserver --etcd-servers="http://127.0.0.1:$etcd_port" \
    --secure-port="$api_port" --bind-address=0.0.0.0 --advertise-address="$node_ip" \
    --tls-cert-file="$keys/apiserver.crt" --tls-private-key-file="$keys/apiserver.key" --client-ca-file="$keys/ca.crt" \
    --kubelet-client-certificate="$keys/apiserver-client.crt" --kubelet-client-key="$keys/apiserver-client.key" \
    --kubelet-certificate-authority="$keys/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$keys/ca.crt" --requestheader-allowed-names=front-proxy \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$keys/front-proxy.crt" --proxy-client-key-file="$keys/front-proxy.key" \
    --service-cluster-ip-range="$services.0/24" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$keys/accounts.pub" --service-account-signing-key-file="$keys/accounts.key" \
    --audit-policy-file="$conf/audit.yaml" --audit-log-path="$log/audit.log" \
    --allow-privileged=true --profiling=false --shutdown-delay-duration=0s
}

start_controllers() {
  # With the default rate towards the API server, a new cluster's first service account takes 10 s.
  local rate=(--kube-api-qps=300 --kube-api-burst=600)
  start controller-manager "$bin/kubelab" kube-controller-manager $(as controller-manager) "${rate[@]}" \
    --use-service-account-credentials=true --service-account-private-key-file="$keys/accounts.key" \
    --root-ca-file="$keys/ca.crt" --cluster-signing-cert-file="$keys/ca.crt" --cluster-signing-key-file="$keys/ca.key"
  start scheduler "$bin/kubelab" kube-scheduler $(as scheduler) "${rate[@]}"
}

as() { # NAME: the flags that all controllers have
  local file=$conf/$1.kubeconfig
  echo "--kubeconfig=$file --authentication-kubeconfig=$file --authorization-kubeconfig=$file" \
    "--leader-elect=false --bind-address=127.0.0.1 --profiling=false"
}
