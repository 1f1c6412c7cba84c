#!/usr/bin/env bash
# Opens hostile and ordinary pages in headless Chromium, for a nightly job.
set -euo pipefail

usage() {
    cat <<'TEXT'
Read pages in Chromium: no script runs, no foreign request is made, no accessibility violation

Usage: scripts/browser.sh SVCFS [FOLDER]

Starts the program SVCFS with hostile pages (the inputs of the renderer's tests, in every context) and ordinary ones,
reads them through /p, shares and /api/svc/render in headless Chromium under the policy that the server sends, and
fails if a script runs, a dialog opens, or anything but permitted images is requested. Checks an ordinary page with
axe-core at 390 and 1440 px, light and dark. With FOLDER, stores screenshots and a PDF there.

Needs chromium, python3 with websocket-client, and node_modules/axe-core/axe.min.js (AXE names another place); as root
on Debian it installs what is missing.
TEXT
}

case "${1:-}" in
    "" | -h | --help) usage && exit ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
need_packages chromium python3 python3-websocket npm
if [[ -z ${AXE:-} ]]; then
    tools="${XDG_CACHE_HOME:-$HOME/.cache}/svcfs/browser"
    mkdir -p "$tools"
    [[ -f $tools/node_modules/axe-core/axe.min.js ]] || npm install --silent --prefix "$tools" axe-core@4
    export AXE="$tools/node_modules/axe-core/axe.min.js"
fi
exec python3 scripts/browser/read_pages.py "$@"
