#!/usr/bin/env bash
# Make previous-chart.tgz: the chart of a revision as an earlier release, whose ServedModel had no
# `spec.suspend` yet. The tests install it and upgrade from it, so it stays as it was first made:
#   previous-chart.sh [REVISION]
. "$(dirname "$0")/settings.sh"
root=$(cd "$here/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

git -C "$root" archive "${1:-HEAD}" charts/pumas | tar -x -C "$folder"
chart=$folder/charts/pumas
sed -i -E 's/^(version|appVersion): .*/\1: 0.0.9/' "$chart/Chart.yaml"
sed -i '/^              suspend:$/,/^                default: false$/d' "$chart/crd-manifests/servedmodels.yaml"
PATH=$PATH:$bin helm package "$chart" --destination "$folder" >/dev/null
mv "$folder/pumas-0.0.9.tgz" "$here/previous-chart.tgz"
say "made previous-chart.tgz of ${1:-HEAD}"
