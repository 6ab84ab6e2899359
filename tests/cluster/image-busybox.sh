#!/usr/bin/env bash
# busybox:1 of 4 MB: Debian's busybox and the libraries it needs, with a link for each of its commands.
# It is not the static one, whose look-up of names needs more than itself. `wget -T` crashes in both.
. "$(dirname "$0")/settings.sh"
. "$here/machine.sh"
need_programs apt-get:apt dpkg:dpkg
mkdir -p "$images"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && { apt-get download -qq busybox 2>/dev/null || { apt-get update -qq && apt-get download -qq busybox; }; } && dpkg -x busybox_*.deb .)
program=$(find "$folder" -path '*bin/busybox')
content=(--file "$program:/bin/busybox" --folder /tmp)
for library in $(ldd "$program" | grep -oE '/[^ ]+'); do content+=(--file "$library:$library"); done
for command in $("$program" --list); do
  [ "$command" = busybox ] || content+=(--link "/bin/$command:/bin/busybox")
done
"$here/oci_image.py" --output "$images/busybox.tar" --name busybox:1 "${content[@]}" --cmd sh
