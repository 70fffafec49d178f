#!/bin/sh
# SPDX-License-Identifier: MIT
# A program that is a script: what it is given must come through.
echo "$0" | sed 's,.*/,,'
for word; do echo "<$word>"; done
exit 6
