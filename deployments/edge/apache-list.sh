#!/bin/sh
# Makes Apache's list of the one that fetch-list.sh has fetched, and reloads Apache. Run every minute:
#   fetch-list.sh http://127.0.0.1:7421/v1/blocklist.haproxy /etc/apache2/weir.map apache-list.sh
set -eu
sed -n "s|^\([0-9a-f.:/]*\) \([A-Za-z0-9._-]*\)\$|SetEnvIfExpr \"-R '\1'\" \"weir=refused \2\"|p" /etc/apache2/weir.map >/etc/apache2/weir.list.new
mv /etc/apache2/weir.list.new /etc/apache2/weir.list
apachectl -k graceful
