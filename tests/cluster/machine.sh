# What the machine must have. Sourced; missing programs are installed from Debian's packages.
# shellcheck shell=bash

need_root_on_linux() { # WHAT
  [ "$(uname -s)" = Linux ] || fail "$1 needs Linux; set KUBECONFIG to a cluster that runs elsewhere"
  [ "$(id -u)" = 0 ] || fail "$1 needs root (it makes network devices and mounts); run it as root, or set KUBECONFIG"
}

# PROGRAM:PACKAGE...; a program is a command, or a file where its name has a slash. Installed is
# what is missing and nothing is removed for it: a machine with another containerd keeps its own.
need_programs() {
  local pair missing=()
  for pair; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    fail "these are missing and there is no apt-get to install them: ${missing[*]}"
  mkdir -p "$kube"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-remove --no-install-recommends \
    "${missing[@]}" >/dev/null 2>"$kube/apt.log" || fail "apt-get could not install ${missing[*]}: $(tail -n 1 "$kube/apt.log")"
  say "installed: ${missing[*]}"
}
