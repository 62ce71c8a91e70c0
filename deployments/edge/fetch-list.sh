#!/bin/sh
# Fetches a plain list from an enforcer, completely or not at all, and runs a command when the list has changed.
# Run it every minute by cron or a timer. Without an enforcer the list stays as it is.
#
#   fetch-list.sh http://127.0.0.1:7421/v1/blocklist.haproxy /etc/haproxy/weir.map systemctl reload haproxy
#   fetch-list.sh http://127.0.0.1:7421/v1/blocklist.nginx /etc/nginx/weir.geo nginx -s reload
#   fetch-list.sh http://127.0.0.1:7421/v1/blocklist.nft /etc/nftables.d/weir.nft nft -f /etc/nftables.d/weir.nft
#
# WEIR_KEY_FILE names a file with an API key of the role read, if the enforcer asks for one.
set -eu
url=$1 file=$2
shift 2

new=$(mktemp "$file.XXXXXX")
trap 'rm -f "$new" "$new.etag"' EXIT
if [ -e "$file" ]; then touch "$file.etag"; else : >"$file.etag"; fi # a list that was deleted is fetched again
header() { if [ -n "${WEIR_KEY_FILE:-}" ]; then printf 'X-Api-Key: %s\n' "$(cat "$WEIR_KEY_FILE")"; fi; }

status=$(header | curl --fail --silent --show-error --max-time 60 --header @- \
	--etag-compare "$file.etag" --etag-save "$new.etag" --output "$new" --write-out '%{http_code}' "$url")
if [ "$status" = 304 ]; then exit 0; fi

chmod 644 "$new"
mv "$new" "$file"
"$@"
mv "$new.etag" "$file.etag" # last, so that a failed command runs again
