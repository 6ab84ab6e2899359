#!/usr/bin/env bash
# The image that holds a pod's namespaces: one static program.
. "$(dirname "$0")/settings.sh"
mkdir -p "$images"
"$here/oci_image.py" --output "$images/pause.tar" --name localhost/pause:1 --file "$bin/pause:/pause" --entrypoint /pause
