#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes configure and the Makefile.in from a checkout. Release archives contain them already.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
command -v autoconf >/dev/null || missing+=(autoconf)
command -v automake >/dev/null || missing+=(automake)
command -v libtoolize >/dev/null || missing+=(libtool)
command -v pkg-config >/dev/null || missing+=(pkg-config)
if ((${#missing[@]})); then
    echo "autogen.sh: missing: ${missing[*]}. On Debian: apt-get install ${missing[*]}" >&2
    exit 1
fi

mkdir -p m4 build-aux
autoreconf --force --install
